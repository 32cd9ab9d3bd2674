"""Shapes and strides as an author writes them, and the buffer variables that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.errors.frontend import TensorShapeError
from tile_core.frontend.promotion import as_int
from tile_core.frontend.values import Buffer, Expr, Value, unwrap, wrap

Shape = tuple[Any, ...]


def as_shape(shape: Any, what: str = "dimension") -> Shape:
    """A shape as a tuple of Python ints and integer expressions.

    Raises:
        TensorShapeError: an entry that is negative or no integer.
    """
    if isinstance(shape, Value | int | ir.Expr) or hasattr(shape, "__index__"):
        shape = (shape,)
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TensorShapeError(f"{shape!r} is no shape", remedy="give an int or a tuple of ints and symbols")
    return tuple(_dimension(entry, what) for entry in shape)


def as_strides(strides: Any, shape: Shape) -> Shape:
    """The strides of a tensor, in elements.

    Raises:
        TensorShapeError: not one stride a dimension, or one that is negative or no integer.
    """
    found = as_shape(strides, what="stride")
    if len(found) != len(shape):
        raise TensorShapeError(
            f"{len(found)} strides for {len(shape)} dimensions", remedy="give one stride a dimension"
        )
    return found


def _dimension(entry: Any, what: str) -> Any:
    if isinstance(entry, ir.Expr):
        entry = wrap(entry)
    if isinstance(entry, Expr):
        if not entry.dtype.is_integer or entry.dtype.lanes != 1:
            raise TensorShapeError(f"the {what} {entry} is a {entry.dtype}", remedy="use integers")
        return int(entry.ir.value) if isinstance(entry.ir, tirx.IntImm) else entry
    number = as_int(entry)
    if number is None:
        raise TensorShapeError(f"the {what} {entry!r} is no integer", remedy="use ints, T.dynamic or T.const symbols")
    if number < 0:
        raise TensorShapeError(f"the {what} {number} is negative", remedy="use 0 or more")
    return number


def declare_buffer(name: str, shape: Shape, dtype: DType, *, strides: Shape = (), scope: str = "global") -> Buffer:
    """A buffer variable. Dimensions are int32, or int64 where one needs it; nothing is assumed about alignment."""
    wide = any(_is_wide(extent) for extent in (*shape, *strides))
    index = DType("int64" if wide else "int32")
    node = tirx.decl_buffer(
        [unwrap(extent, index if isinstance(extent, int) else None) for extent in shape],
        dtype.tvm,
        name=name,
        strides=[unwrap(stride, index if isinstance(stride, int) else None) for stride in strides],
        scope="" if scope == "global" else scope,
        data_alignment=max(1, dtype.bytes),
    )
    return Buffer(node)


def _is_wide(extent: Any) -> bool:
    return extent >= 2**31 if isinstance(extent, int) else bool(extent.dtype.bits == 64)
