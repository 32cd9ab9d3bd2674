"""Orders of shared tiles without bank conflicts, for `T.annotate_layout` and for indices written by hand.

`T.gemm` and `T.tma_copy` order the tiles that they read by themselves. PTX ISA, "Shared memory layout and swizzling".
"""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import Buffer
from tile_core.language._operands import whole_buffer
from tile_core.layouts import Layout
from tile_core.layouts.swizzle import SPANS, UNIT_BYTES

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]

_LEAST_BYTES, _MOST_BYTES, _ROWS = 32, 128, 8
_SWIZZLED_BYTES = 64


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any, Any]:
    """Where an element of a row-major matrix lies: strip, row, and column within the strip.

    A strip is `swizzle_bytes` wide, and its 16-byte units are permuted by the row.

    Args:
        row_idx, col_idx: ints or expressions.
        row_size: elements of a row, a multiple of 32 bytes.
        swizzle_bytes: 32, 64 or 128; by default as many as a row has, at most 128.

    Raises:
        OpArgumentError: a row or a width that is none of these.

    >>> get_swizzle_layout(3, 70, 128, "float16")
    (1, 3, 30)
    """
    bits = as_dtype(dtype).bits
    row_bytes = bits * row_size // 8
    width = min(_MOST_BYTES, row_bytes) if swizzle_bytes is None else swizzle_bytes
    if row_bytes % _LEAST_BYTES or width not in SPANS:
        raise OpArgumentError(
            f"get_swizzle_layout: rows of {row_bytes} bytes in strips of {width}",
            remedy="rows are a multiple of 32 bytes, strips 32, 64 or 128",
        )
    unit = UNIT_BYTES * 8 // bits
    units = width // UNIT_BYTES
    number = col_idx // unit
    permuted = number % units ^ row_idx % _ROWS // (_ROWS // units)
    return number // units, row_idx, permuted * unit + col_idx % unit


def make_mma_swizzle_layout(shared_buf: Buffer, is_smooth: bool = False) -> Layout:
    """The order in which `T.ptx_ldmatrix` reads a tile without bank conflicts; the plain one where `is_smooth`.

    Tiles whose rows are no multiple of 64 bytes keep the plain order.

    Raises:
        OpArgumentError: no buffer, or a shape that is not constant.

    Example:
        T.annotate_layout({tile: T.make_mma_swizzle_layout(tile)})
    """
    buffer = whole_buffer(shared_buf, "make_mma_swizzle_layout")
    shape = [extent for extent in buffer.shape if isinstance(extent, int)]
    if len(shape) < max(buffer.ndim, 2):
        raise OpArgumentError(
            f"make_mma_swizzle_layout: {buffer.name} has shape {buffer.shape}", remedy="give a matrix of constant shape"
        )
    if is_smooth or shape[-1] * buffer.dtype.bits % (8 * _SWIZZLED_BYTES):
        return Layout(shape, lambda *index: list(index))
    return Layout(
        shape, lambda *index: [*index[:-2], *get_swizzle_layout(index[-2], index[-1], shape[-1], buffer.dtype)]
    )
