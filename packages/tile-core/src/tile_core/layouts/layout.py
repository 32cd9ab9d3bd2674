"""A layout: logical index of a buffer to physical index."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import ir, tirx

from tile_core.errors import LayoutError
from tile_core.layouts.tabulate import Table, tabulate

IndexFunction = Callable[..., Any]


def index_map(shape: Sequence[int], function: IndexFunction) -> tirx.IndexMap:
    """Call `function` on fresh index variables and keep what it returns as an index map."""
    variables = [tirx.Var(f"i{axis}", "int32") for axis in range(len(shape))]
    require_function(function, len(shape), len(shape))
    result = function(*variables)
    outputs = result if isinstance(result, list | tuple) else [result]
    return tirx.IndexMap(variables, [as_index(value) for value in outputs], None)


def as_index(value: Any) -> ir.Expr:
    """The TVM expression behind an index: a Python int, a TVM expression or a language value."""
    inner = getattr(value, "ir", value)
    return tirx.IntImm("int32", int(inner)) if isinstance(inner, int) else inner


def as_extents(shape: Any) -> tuple[int, ...]:
    """The extents of a layout. Raises LayoutError for what is no sequence of ints."""
    try:
        return tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        raise LayoutError(f"the shape of a layout is {shape!r}", remedy="give a tuple of ints") from None


def require_function(function: Any, *counts: int) -> None:
    """Raise LayoutError unless `function` can be called with one of these numbers of arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise LayoutError(f"{function!r} is no index function", remedy="give a function of the indices") from None
    for count in counts:
        with contextlib.suppress(TypeError):
            signature.bind(*range(count))
            return
    raise LayoutError(
        f"the index function {signature} does not take {counts[0]} indices", remedy="give it one parameter an axis"
    )


def arity(function: IndexFunction) -> int:
    """How many positional arguments `function` takes."""
    return len(inspect.signature(function).parameters)


class Layout:
    """A map from a logical index in `shape` to a physical index.

    `function` gets one index per axis and returns one index or a tuple:

    >>> Layout((4, 8), lambda i, j: (i, j ^ i)).output_shape
    (4, 8)

    Raises `LayoutError` when the map leaves the non-negative integers.
    """

    def __init__(self, shape: Sequence[int], function: IndexFunction) -> None:
        self.shape = as_extents(shape)
        self.map = index_map(self.shape, function)

    @classmethod
    def row_major(cls, shape: Sequence[int]) -> Layout:
        """The flat row-major layout of `shape`."""
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return cls(shape, lambda *index: sum(i * stride for i, stride in zip(index, strides, strict=True)))

    @functools.cached_property
    def table(self) -> Table:
        """The physical index of every element: an array of shape `shape + (rank of the output,)`."""
        columns = tabulate(self.map.initial_indices, self.map.final_indices, self.shape)
        table = np.stack(columns, axis=-1)
        if table.size and table.min() < 0:
            raise LayoutError(
                f"a layout of shape {self.shape} maps an element to the negative index {table.min()}",
                remedy="make the index function give coordinates of at least 0",
            )
        return table

    @functools.cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The smallest box that holds every physical index."""
        flat = self.table.reshape(-1, self.table.shape[-1])
        return tuple(int(extent) for extent in flat.max(axis=0) + 1) if len(flat) else (0,) * self.table.shape[-1]

    @functools.cached_property
    def flat(self) -> Table:
        """The physical index of every element, linearised row-major over `output_shape`; shape `shape`."""
        flat: Table = np.ravel_multi_index(tuple(np.moveaxis(self.table, -1, 0)), self.output_shape).astype(np.int64)
        return flat

    @property
    def is_injective(self) -> bool:
        """Whether no two elements share a place."""
        return len(np.unique(self.flat)) == self.flat.size

    def collision(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Two logical indices that share a place, the first in row-major order, or `None`."""
        order = np.argsort(self.flat.ravel(), kind="stable")
        ordered = self.flat.ravel()[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        if not len(same):
            return None
        first, second = (np.unravel_index(order[same[0] + step], self.shape) for step in (0, 1))
        return tuple(map(int, first)), tuple(map(int, second))

    def map_indices(self, indices: Sequence[Any]) -> tuple[ir.Expr, ...]:
        """The physical index of a symbolic logical index."""
        return tuple(self.map.map_indices([as_index(index) for index in indices]))

    def inverse(self) -> Layout:
        """The layout from physical to logical index.

        Raises `LayoutError` unless the map is a bijection onto `output_shape` that TVM can invert.
        """
        if not self.is_injective or prod(self.output_shape) != prod(self.shape):
            raise LayoutError(
                f"a layout of shape {self.shape} is no bijection onto {self.output_shape}",
                remedy="invert only layouts that fill their range, each place once",
            )
        ranges = [ir.Range(0, extent) for extent in self.shape]
        try:
            inverted = self.map.inverse(ranges)
        except Exception as error:
            raise LayoutError(
                f"the layout {self.map} cannot be inverted symbolically",
                remedy="build the index function of +, *, //, % and ^ by constants, or use the table",
            ) from error
        result = Layout.__new__(Layout)
        result.shape, result.map = self.output_shape, inverted
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.shape == other.shape and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.shape, self.table.tobytes()))

    def __repr__(self) -> str:
        return f"Layout({self.shape} -> {self.output_shape}: {self.map})"
