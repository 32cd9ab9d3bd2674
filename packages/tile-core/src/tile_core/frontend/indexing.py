"""From what stands between the brackets of `A[...]` to full-rank indices or a box.

Negative constants count from the end, as in Python. A constant outside the buffer is refused, except the end of a slice
of global memory; an expression is not, since a tile may hang over the edge and is guarded later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tile_core.errors.frontend import IndexCountError, IndexRangeError
from tile_core.frontend.exprs import Expr, as_expr, as_number
from tile_core.frontend.promotion import shown
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant

Index = Any
"""A Python int or an `Expr` of integer dtype."""


@dataclass(frozen=True)
class Slicing:
    """A box: one start and extent a dimension, and which dimensions were written as slices."""

    starts: tuple[Index, ...]
    extents: tuple[Index, ...]
    kept: tuple[bool, ...]


def normalise(name: str, shape: tuple[Index, ...], key: Any, *, overhang: bool) -> tuple[Index, ...] | Slicing:
    """Full-rank indices when every axis is indexed, a `Slicing` when one is sliced.

    `overhang`: a slice may end beyond the buffer, as a tile of a tensor in global memory does.

    Raises:
        IndexCountError: the number of indices is not the rank, or an entry is no index.
        IndexRangeError: a constant lies outside.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) != len(shape):
        raise IndexCountError(
            f"{name} has {len(shape)} dimensions and is indexed with {len(keys)}",
            remedy="give one index or slice for each dimension",
        )
    if not any(isinstance(entry, slice) for entry in keys):
        return tuple(_index(name, axis, entry, shape[axis]) for axis, entry in enumerate(keys))
    boxes = [_box(name, axis, entry, shape[axis], overhang) for axis, entry in enumerate(keys)]
    return Slicing(
        tuple(start for start, _ in boxes),
        tuple(extent for _, extent in boxes),
        tuple(isinstance(entry, slice) for entry in keys),
    )


def _box(name: str, axis: int, entry: Any, extent: Index, overhang: bool) -> tuple[Index, Index]:
    if not isinstance(entry, slice):
        return _index(name, axis, entry, extent), 1
    if entry.step is not None and not (isinstance(entry.step, int) and entry.step == 1):
        raise IndexCountError(f"a slice of {name} has the step {entry.step}", remedy="use a loop with a step")
    start = 0 if entry.start is None else _bound(name, axis, entry.start, extent)
    stop = extent if entry.stop is None else _bound(name, axis, entry.stop, extent, overhang=overhang)
    length = _length(start, stop)
    if isinstance(length, int) and length < 0:
        raise IndexRangeError(
            f"the slice {start}:{stop} of {name} on axis {axis} is negative", remedy="swap the bounds"
        )
    return start, length


def _bound(name: str, axis: int, value: Any, extent: Index, *, overhang: bool = False) -> Index:
    """A slice bound: 0 to the extent, both included, or beyond it with `overhang`."""
    bound = _scalar(name, value)
    if not isinstance(bound, int):
        return bound
    counted = extent + bound if bound < 0 else bound
    inside = counted >= 0 and (overhang or counted <= extent) if isinstance(extent, int) else True
    if isinstance(counted, int) and not inside:
        raise IndexRangeError(
            f"the slice bound {shown(bound)} of {name} lies outside axis {axis} of extent {extent}",
            remedy="slices are not clamped: give bounds inside the buffer",
        )
    return counted


def _index(name: str, axis: int, value: Any, extent: Index) -> Index:
    index = _scalar(name, value)
    if not isinstance(index, int):
        return index
    counted = extent + index if index < 0 else index
    if isinstance(counted, int) and isinstance(extent, int) and not 0 <= counted < extent:
        raise IndexRangeError(
            f"the index {shown(index)} of {name} lies outside axis {axis} of extent {extent}",
            remedy=f"use 0 to {extent - 1}, or a negative index from the end",
        )
    return counted


def _scalar(name: str, value: Any) -> Index:
    if value is Ellipsis or value is None:
        raise IndexCountError(
            f"{name} is indexed with {value!r}", remedy="write an index or a slice for each dimension"
        )
    if not isinstance(value, Expr):
        if hasattr(value, "ty"):
            value = as_expr(value)
        else:
            return _number(name, value)
    if not (value.dtype.is_integer or value.dtype.is_bool) or value.dtype.lanes != 1:
        is_vector = value.dtype.lanes != 1
        raise IndexCountError(
            f"{name} is indexed with a {value.dtype}",
            remedy="loop over the lanes with T.vectorized" if is_vector else 'cast the index: T.cast(i, "int32")',
        )
    known = constant(value.ir)
    if known is not None:
        return known
    if value.dtype.is_bool:
        return value.astype("int32")
    # A variable is read now: the place does not move when it is assigned.
    return value.load()


def _number(name: str, value: Any) -> int:
    is_tuple = isinstance(value, list | tuple)
    if is_tuple or isinstance(value, bool | float | str) or not hasattr(value, "__index__"):
        raise IndexCountError(
            f"{name} is indexed with {value!r} of type {type(value).__name__}",
            remedy="name each index of the loop, `for i, j in ...`" if is_tuple else "index with integers or slices",
        )
    return int(as_number(value))


def _length(start: Index, stop: Index) -> Index:
    """`stop - start`, simplified, so that `A[k * 32 : k * 32 + 32]` is 32 long."""
    if isinstance(start, int) and isinstance(stop, int):
        return stop - start
    if isinstance(start, int) and start == 0:
        return stop
    difference = Analyzer().simplify((stop - start).ir)
    known = constant(difference)
    return as_expr(difference) if known is None else known
