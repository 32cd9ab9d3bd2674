"""How threads run the iterations of a parallel loop nest: the form of a layout that code is generated from.

A mapping answers, for a thread and its own step counters, which iterations it runs and in which registers their
elements sit. `fragment()` is the same statement the other way round (element to thread and register), tabulated,
against which the generated form is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.layouts.fragment import Fragment
from tile_core.layouts.parallel import parallel_fragment

Lane: TypeAlias = int | ir.Expr


def ceildiv(a: Any, b: int) -> Any:
    """`a / b` rounded up, for ints and expressions."""
    return -(-a // b) if isinstance(a, int) else tirx.floordiv(a + (b - 1), tirx.IntImm(a.ty, b))


class Mapping(Protocol):
    """The iterations of one nest over the threads of a block.

    `vector` consecutive iterations along the last axis are one unit of work; `steps` are the extents of a thread's own
    loops over units.
    """

    @property
    def vector(self) -> int:
        """Iterations of a unit."""
        ...

    @property
    def head(self) -> ir.Var | None:
        """How many iterations come before the first unit; `None` where units begin at the first iteration."""
        ...

    @property
    def edge_steps(self) -> int:
        """How many of the iterations outside of whole units a thread runs at most: 0 without a `head`."""
        ...

    def edge(self, thread: ir.Expr, step: ir.Expr) -> ir.Expr:
        """The iteration of edge step `step`; it may lie beyond the extent."""
        ...

    @property
    def extents(self) -> tuple[Any, ...]:
        """Extents of the mapped axes."""
        ...

    @property
    def steps(self) -> tuple[Any, ...]:
        """Extents of a thread's loops: ints, or an expression where the nest's extent is one."""
        ...

    def indices(self, thread: ir.Expr, step: Sequence[ir.Expr]) -> list[ir.Expr]:
        """The iteration of lane 0 of a unit; lane `l` adds `l` to the last index."""
        ...

    def guards(
        self, thread: ir.Expr, step: Sequence[ir.Expr], index: Sequence[ir.Expr], first: Lane, last: Lane
    ) -> list[ir.Expr]:
        """What must hold for the lanes `first` to `last` of the unit at `index` to be iterations."""
        ...

    def register(self, step: Sequence[ir.Expr], lane: ir.Expr | int) -> Any:
        """The register of the element that belongs to an iteration."""
        ...

    @property
    def registers(self) -> int:
        """How many registers a thread needs for a tile with this mapping."""
        ...


@dataclass(frozen=True)
class FlatMapping:
    """The free mapping: iterations numbered row-major, vectors dealt to the threads in turn.

    With constant extents, lanes stay inside of a row: `vector` divides the last extent unless there is one axis.

    `head` moves the units of a nest of one axis to where addresses are aligned: the first unit begins at iteration
    `head`, less than `vector`. What lies before it, and behind the last whole unit, are the edges: fewer than
    `2 * vector` iterations, which run one a thread. So every unit is whole.
    """

    extents: tuple[Any, ...]
    threads: int
    vector: int = 1
    head: ir.Var | None = None

    def __post_init__(self) -> None:
        last = self.extents[-1]
        if len(self.extents) > 1 and isinstance(last, int) and last % self.vector:
            raise ValueError(f"vectors of {self.vector} would leave rows of {last}")

    @property
    def total(self) -> Any:
        """The number of iterations."""
        return prod(self.extents[1:], start=self.extents[0])

    @property
    def steps(self) -> tuple[Any, ...]:
        """One loop over the vectors of a thread."""
        if self.head is not None:
            return (_whole_steps(self.extents[0], self.threads, self.vector),)
        return (ceildiv(self.total, self.threads * self.vector),)

    @property
    def edge_steps(self) -> int:
        """As many as `_edge_steps` says."""
        return 0 if self.head is None else _edge_steps(self.threads, self.vector)

    def edge(self, thread: ir.Expr, step: ir.Expr) -> ir.Expr:
        """Edges are dealt to the threads in turn."""
        return _edge(step * self.threads + thread, self.head, self.extents[0], self.vector)

    def indices(self, thread: ir.Expr, step: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Row-major index of the first lane, taken apart."""
        flat = (step[0] * self.threads + thread) * self.vector
        if len(self.extents) == 1:
            return [flat if self.head is None else flat + self.head]
        indices: list[ir.Expr] = []
        for extent in reversed(self.extents[1:]):
            indices.append(tirx.floormod(flat, _immediate(extent)))
            flat = tirx.floordiv(flat, _immediate(extent))
        return [flat, *reversed(indices)]

    def guards(
        self, thread: ir.Expr, step: Sequence[ir.Expr], index: Sequence[ir.Expr], first: Lane, last: Lane
    ) -> list[ir.Expr]:
        """Comparisons on the flat number; none where the threads divide the work."""
        if self.head is not None:
            return [E.LT(index[0] + (self.vector - 1), _immediate(self.total))]
        unit = self.threads * self.vector
        if isinstance(self.total, int) and self.total % unit == 0:
            return []
        flat = (step[0] * self.threads + thread) * self.vector
        return [E.LT(flat + last, _immediate(self.total))]

    def register(self, step: Sequence[ir.Expr], lane: ir.Expr | int) -> Any:
        """Vectors one behind the other."""
        return step[0] * self.vector + lane

    @property
    def registers(self) -> int:
        """Vectors of a thread times lanes, then the edges."""
        return int(self.steps[0]) * self.vector + self.edge_steps

    def fragment(self) -> Fragment:
        """The tabulated form."""
        return parallel_fragment(self.extents, self.threads, self.vector)


@dataclass(frozen=True)
class SplitMapping:
    """Threads dealt to the axes separately: what a tile needs that is reduced or broadcast along an axis.

    Axis `a` of extent `extents[a]` is run by `axis_threads[a]` threads, a thread's digit along it being
    `thread // strides[a] % axis_threads[a]`. Threads beyond `used` have no work. `head` is that of `FlatMapping`, for
    a tile of one axis.
    """

    extents: tuple[int, ...]
    axis_threads: tuple[int, ...]
    strides: tuple[int, ...]
    used: int
    threads: int
    vector: int = 1
    head: ir.Var | None = None

    def _lanes(self, axis: int) -> int:
        return self.vector if axis == len(self.extents) - 1 else 1

    @property
    def steps(self) -> tuple[int, ...]:
        """One loop an axis."""
        if self.head is not None:
            return (_whole_steps(self.extents[0], self.axis_threads[0], self.vector),)
        return tuple(
            ceildiv(extent, threads * self._lanes(axis))
            for axis, (extent, threads) in enumerate(zip(self.extents, self.axis_threads, strict=True))
        )

    @property
    def edge_steps(self) -> int:
        """As many as `_edge_steps` says."""
        return 0 if self.head is None else _edge_steps(self.axis_threads[0], self.vector)

    def edge(self, thread: ir.Expr, step: ir.Expr) -> ir.Expr:
        """Edges are dealt to the threads of the axis in turn."""
        return _edge(step * self.axis_threads[0] + self.digit(thread, 0), self.head, self.extents[0], self.vector)

    def digit(self, thread: ir.Expr, axis: int) -> ir.Expr:
        """The thread's position along `axis`."""
        count, stride = self.axis_threads[axis], self.strides[axis]
        if count == 1:
            return tirx.IntImm("int32", 0)
        quotient = thread if stride == 1 else tirx.floordiv(thread, _immediate(stride))
        return quotient if stride * count >= self.threads else tirx.floormod(quotient, _immediate(count))

    def indices(self, thread: ir.Expr, step: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Axis by axis: step, digit, lane."""
        found = [
            (step[axis] * self.axis_threads[axis] + self.digit(thread, axis)) * self._lanes(axis)
            for axis in range(len(self.extents))
        ]
        return found if self.head is None else [found[0] + self.head]

    def guards(
        self, thread: ir.Expr, step: Sequence[ir.Expr], index: Sequence[ir.Expr], first: Lane, last: Lane
    ) -> list[ir.Expr]:
        """A comparison for the spare threads and one for each axis that its threads do not divide."""
        found: list[ir.Expr] = []
        if self.used < self.threads:
            found.append(E.LT(thread, _immediate(self.used)))
        for axis, extent in enumerate(self.extents):
            is_last = axis == len(self.extents) - 1
            if self.head is not None:
                found.append(E.LT(index[axis] + (self.vector - 1), _immediate(extent)))
            elif extent % (self.axis_threads[axis] * self._lanes(axis)):
                reach = last if is_last else 0
                found.append(E.LT(index[axis] + reach, _immediate(extent)))
        return found

    def register(self, step: Sequence[ir.Expr], lane: ir.Expr | int) -> Any:
        """Row-major over the steps, lanes innermost."""
        position: Any = 0
        for axis, count in enumerate(self.steps):
            position = position * count + step[axis]
        return position * self.vector + lane

    @property
    def registers(self) -> int:
        """Steps along every axis times lanes, then the edges."""
        return prod(self.steps) * self.vector + self.edge_steps

    def fragment(self) -> Fragment:
        """The tabulated form, without replicas along axes that the tile lacks."""
        lanes = [self._lanes(axis) for axis in range(len(self.extents))]

        def thread(index: Sequence[Any], replica: Any) -> Any:
            digits = (i // lanes[axis] % self.axis_threads[axis] for axis, i in enumerate(index))
            return sum(digit * stride for digit, stride in zip(digits, self.strides, strict=True))

        def register(index: Sequence[Any]) -> Any:
            step = [i // (lanes[axis] * self.axis_threads[axis]) for axis, i in enumerate(index)]
            return self.register(step, index[-1] % self.vector)

        return Fragment.of(self.extents, thread, register)


def _whole_steps(extent: int, threads: int, vector: int) -> int:
    """How many units of `vector` a thread has at most, of those that lie inside of `extent`."""
    return int(ceildiv(extent // vector, threads))


def _edge_steps(threads: int, vector: int) -> int:
    """Before the first unit and behind the last lie fewer than `vector` iterations each."""
    return int(ceildiv(2 * (vector - 1), threads))


def _edge(number: ir.Expr, head: ir.Var | None, extent: int, vector: int) -> ir.Expr:
    """The iteration of edge `number`: those before `head`, then those behind the last whole unit."""
    assert head is not None
    whole = tirx.floordiv(_immediate(extent) - head, _immediate(vector)) * vector
    return tirx.Select(E.LT(number, head), number, number + whole)


def _immediate(value: Any) -> ir.Expr:
    return tirx.IntImm("int32", value) if isinstance(value, int) else value
