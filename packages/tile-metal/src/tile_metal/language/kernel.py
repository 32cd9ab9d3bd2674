"""`T.Kernel` of the Metal dialect."""

from __future__ import annotations

from tile_core.language.kernel import kernel_type

__all__ = ["Kernel"]

Kernel = kernel_type("Metal", ["threads", "prelude"])
