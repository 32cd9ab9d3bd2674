"""A fragment layout: logical index of a tile to (thread, register), with optional replication.

A replicated element lives in several threads at once; the replica is one more input of the thread map. What a thread
holds is `local_extent` registers, and an element sits in the same register in each of its replicas.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import ir, tirx

from tile_core.errors import LayoutError
from tile_core.layouts.layout import IndexFunction, arity, as_extents, as_index, require_function
from tile_core.layouts.tabulate import Table, tabulate


class Fragment:
    """A map from an index in `shape` and a replica to a thread, and from the index to a register.

    Either `forward_fn(*index[, replica]) -> (thread, register)`, or `forward_thread_fn` and `forward_index_fn` apart.

    >>> f = Fragment((4, 4), forward_fn=lambda i, j: (i, j))
    >>> f.threads, f.local_extent
    (4, 4)

    Raises `LayoutError` when two elements of one thread share a register.
    """

    def __init__(
        self,
        shape: Sequence[int],
        forward_fn: IndexFunction | None = None,
        forward_thread_fn: IndexFunction | None = None,
        replicate: int = 1,
        forward_index_fn: IndexFunction | None = None,
    ) -> None:
        if (forward_fn is None) == (forward_thread_fn is None):
            raise LayoutError(
                "a fragment takes either forward_fn or forward_thread_fn, not both and not neither",
                remedy="give one of the two",
            )
        rank = len(as_extents(shape))
        for function in (forward_fn, forward_thread_fn, forward_index_fn):
            if function is not None:
                require_function(function, rank, rank + 1)

        def with_replica(function: IndexFunction, index: Sequence[Any], replica: Any) -> Any:
            return function(*index, replica) if arity(function) == len(index) + 1 else function(*index)

        if forward_fn is not None:
            self._build(
                shape,
                lambda index, replica: with_replica(forward_fn, index, replica)[0],
                lambda index: with_replica(forward_fn, index, 0)[1],
                replicate,
            )
        elif forward_thread_fn is not None:
            self._build(
                shape,
                lambda index, replica: with_replica(forward_thread_fn, index, replica),
                lambda index: 0 if forward_index_fn is None else forward_index_fn(*index),
                replicate,
            )

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        thread: Callable[[Sequence[Any], Any], Any],
        register: Callable[[Sequence[Any]], Any],
        replicate: int = 1,
    ) -> Fragment:
        """The fragment with `thread(index, replica)` and `register(index)`; `index` is a sequence."""
        fragment = cls.__new__(cls)
        fragment._build(shape, thread, register, replicate)
        return fragment

    def _build(
        self,
        shape: Sequence[int],
        thread: Callable[[Sequence[Any], Any], Any],
        register: Callable[[Sequence[Any]], Any],
        replicate: int,
    ) -> None:
        self.shape = as_extents(shape)
        self.replicate_size = int(replicate)
        self._indices = [tirx.Var(f"i{axis}", "int32") for axis in range(len(self.shape))]
        self._replica = tirx.Var("replica", "int32")
        self.thread_expr = as_index(thread(self._indices, self._replica))
        self.local_expr = as_index(register(self._indices))
        self._check()

    @functools.cached_property
    def thread_table(self) -> Table:
        """The thread of every element and replica: shape `shape + (replicate_size,)`."""
        variables = [*self._indices, self._replica]
        return tabulate(variables, [self.thread_expr], (*self.shape, self.replicate_size))[0]

    @functools.cached_property
    def local_table(self) -> Table:
        """The register of every element: shape `shape`."""
        return tabulate(self._indices, [self.local_expr], self.shape)[0]

    @property
    def threads(self) -> int:
        """One more than the largest thread index in use."""
        return int(self.thread_table.max()) + 1 if self.thread_table.size else 0

    @property
    def local_extent(self) -> int:
        """Registers a thread needs."""
        return int(self.local_table.max()) + 1 if self.local_table.size else 0

    def _check(self) -> None:
        threads, local = self.thread_table, self.local_table
        if threads.size and (threads.min() < 0 or local.min() < 0):
            raise LayoutError(
                f"a fragment of shape {self.shape} maps an element to a negative thread or register",
                remedy="make forward_fn give a thread and a register of at least 0 for every index",
            )
        places = threads.reshape(-1, self.replicate_size) * (self.local_extent or 1) + local.reshape(-1, 1)
        elements = np.broadcast_to(np.arange(len(places))[:, None], places.shape)
        pairs = np.unique(np.stack([places.ravel(), elements.ravel()]), axis=1)
        if len(np.unique(pairs[0])) != pairs.shape[1]:
            raise LayoutError(
                f"a fragment of shape {self.shape} is not injective: two elements share a register",
                remedy="make forward_fn give each element a thread and register of its own, or set replicate=",
            )

    def owned_by(self, thread: int) -> list[tuple[int, ...]]:
        """The elements that `thread` holds, in the order of its registers."""
        found = np.argwhere((self.thread_table == thread).any(axis=-1))
        order = np.argsort(self.local_table[tuple(found.T)], kind="stable")
        return [tuple(map(int, index)) for index in found[order]]

    def map_forward_thread(self, indices: Sequence[Any], replica: Any = 0) -> ir.Expr:
        """The thread that holds a symbolic index."""
        return self._substitute(self.thread_expr, indices, replica)

    def map_forward_index(self, indices: Sequence[Any]) -> ir.Expr:
        """The register of a symbolic index."""
        return self._substitute(self.local_expr, indices, 0)

    def _substitute(self, expr: ir.Expr, indices: Sequence[Any], replica: Any) -> ir.Expr:
        given = [as_index(index) for index in (*indices, replica)]
        return tirx.IndexMap([*self._indices, self._replica], [expr], None).map_indices(given)[0]

    def repeat(self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True) -> Fragment:
        """The fragment of a tile `repeats` times larger along each axis.

        The copies go to further registers, or to further threads if `repeat_on_thread`; `lower_dim_first` numbers them
        along axis 0 fastest.
        """
        if len(repeats) != len(self.shape):
            raise LayoutError(
                f"repeat takes one number for each of {len(self.shape)} axes, got {list(repeats)}",
                remedy="give one number for each axis",
            )
        order = range(len(repeats)) if lower_dim_first else reversed(range(len(repeats)))
        steps, total = {}, 1
        for axis in order:
            steps[axis] = total
            total *= repeats[axis]
        threads, local = self.threads, self.local_extent

        def copy_of(index: Sequence[Any]) -> Any:
            return sum(i // self.shape[axis] * steps[axis] for axis, i in enumerate(index))

        def inside(index: Sequence[Any]) -> list[Any]:
            return [i % extent for i, extent in zip(index, self.shape, strict=True)]

        def thread(index: Sequence[Any], replica: Any) -> Any:
            base = self.map_forward_thread(inside(index), replica)
            return base + copy_of(index) * threads if repeat_on_thread else base

        def register(index: Sequence[Any]) -> Any:
            base = self.map_forward_index(inside(index))
            return base if repeat_on_thread else base + copy_of(index) * local

        shape = [extent * times for extent, times in zip(self.shape, repeats, strict=True)]
        return Fragment.of(shape, thread, register, self.replicate_size)

    def replicate(self, times: int) -> Fragment:
        """The same fragment held `times` times, by further threads."""
        threads, inner = self.threads, self.replicate_size

        def thread(index: Sequence[Any], replica: Any) -> Any:
            return self.map_forward_thread(index, replica % inner) + replica // inner * threads

        return Fragment.of(self.shape, thread, self.map_forward_index, inner * times)

    def condense_rep_var(self) -> Fragment:
        """The same fragment without replicas that change nothing: replicas that name the same thread are one."""
        distinct = np.unique(self.thread_table.reshape(-1, self.replicate_size), axis=1)
        if distinct.shape[1] == self.replicate_size:
            return self
        if distinct.shape[1] != 1:
            raise LayoutError(
                f"{self.replicate_size} replicas name {distinct.shape[1]} threads each; cannot condense",
                remedy="lay replicas out over distinct threads",
            )
        return Fragment.of(self.shape, lambda index, replica: self.map_forward_thread(index, 0), self.map_forward_index)

    def is_equal(self, other: Fragment) -> bool:
        """Whether both hold every element in the same threads (in any replica order) and registers."""
        return self == other

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Fragment)
            and self.shape == other.shape
            and np.array_equal(self.local_table, other.local_table)
            and np.array_equal(np.sort(self.thread_table, axis=-1), np.sort(other.thread_table, axis=-1))
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.local_table.tobytes(), np.sort(self.thread_table, axis=-1).tobytes()))

    def __repr__(self) -> str:
        replicas = f", {self.replicate_size} replicas" if self.replicate_size > 1 else ""
        return f"Fragment({self.shape} -> {self.threads} threads × {self.local_extent} registers{replicas})"

    @property
    def elements(self) -> int:
        """How many elements the tile has."""
        return prod(self.shape)
