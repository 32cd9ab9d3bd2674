"""Errors raised by layouts and their inference."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = ["LayoutError"]


class LayoutError(TileError, ValueError):
    """A layout is not usable: it is not injective, leaves its range, or cannot be inverted.

    A layout must give every element a place of its own with non-negative coordinates. Change the index function so that no
    two logical indices map to one place, or enlarge the range that it maps to.
    """

    code = "TILE-E0601"
