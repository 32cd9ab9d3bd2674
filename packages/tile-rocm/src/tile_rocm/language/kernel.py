"""`T.Kernel` of the ROCm dialect."""

from __future__ import annotations

from tile_core.language.kernel import kernel_type

__all__ = ["Kernel"]

Kernel = kernel_type("ROCm", ["threads", "prelude"])
