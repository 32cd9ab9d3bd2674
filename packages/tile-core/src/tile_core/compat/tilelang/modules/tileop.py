"""`tilelang.tileop.base`: how the warps of a block share a product."""

from __future__ import annotations

from tile_core.language import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
