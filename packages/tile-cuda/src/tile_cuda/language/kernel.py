"""`T.Kernel` of the CUDA dialect."""

from __future__ import annotations

from tile_core.language.kernel import kernel_type

__all__ = ["Kernel"]

Kernel = kernel_type("CUDA", ["threads", "prelude", "cluster_dims"])
