"""`tilelang.layout`: layouts, and the makers of swizzled ones.

A swizzle is a hint for the banks of one kind of shared memory. Where tiles lie is the backend's choice here, so the
makers return the plain layout: the program's meaning is the same.
"""

from __future__ import annotations

from typing import Any

from tile_core.layouts import Fragment, Layout

_SWIZZLES = (
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "make_tcgen05mma_swizzled_layout",
    "make_volta_swizzled_layout",
    "make_wgmma_swizzled_layout",
)
__all__ = ["Fragment", "Layout", *_SWIZZLES]  # noqa: PLE0604 - the tuple holds text


def _plain(buffer: Any, *_arguments: Any, **_options: Any) -> Layout:
    """The row-major layout of a buffer or a shape; what a swizzle would add is the backend's choice."""
    return Layout.row_major([int(extent) for extent in getattr(buffer, "shape", buffer)])


def __getattr__(name: str) -> Any:
    if name in _SWIZZLES:
        return _plain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
