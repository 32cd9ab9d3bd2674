"""Refuse regions of tiles and elements of fragments that leave them in an iteration that is certain to run.

What leaves a tensor is guarded; a tile ends at its last element, and what its author wants beyond it nobody knows.
Constants are checked while a program is traced. Here, indices that are computed from loops of constant bounds are
looked at in the first and in the last iteration, where they are smallest and largest. What stands under a condition, in
a loop that may end early, or depends on anything else is only known when it runs: the interpreter and the emulator's
checks find it there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.passes import RegionOutOfRangeError
from tile_core.ir import launch, regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.passes.accesses import substitute
from tile_core.passes.legalize_bounds import IF_THEN_ELSE
from tile_core.passes.ranges import reads_memory

MOST_LOOPS = 4
"""Loops that a start may depend on; that of more is not looked at."""


def check_tile_regions(body: S.Stmt) -> None:
    """Check every launch of a function. Raises `RegionOutOfRangeError`."""
    for nest in launch.launches(body):
        _Checker().check(nest, _Place())


@dataclass(frozen=True)
class _Place:
    """The first and the last value of the loops around a statement, and the values of names that they decide."""

    ends: dict[ir.Var, tuple[int, ...]] = field(default_factory=dict)
    span: Any = None


class _Checker:
    def __init__(self) -> None:
        self._names: dict[ir.Var, ir.Expr] = {}
        self._analyzer = Analyzer()

    def check(self, stmt: S.Stmt, place: _Place) -> None:
        place = place if stmt.span is None else replace(place, span=stmt.span)
        if isinstance(stmt, S.Bind):
            self._loads(stmt.value, place)
            if not reads_memory(stmt.value):
                self._names[stmt.var] = substitute(stmt.value, self._names)
        elif isinstance(stmt, S.Evaluate):
            for region in visit.collect(stmt, ir.TensorRegion):
                self._region(region, place)
        elif isinstance(stmt, S.BufferStore):
            self._element(stmt.buffer, stmt.indices, place)
            self._loads(stmt.value, place)
        elif isinstance(stmt, S.For):
            entered = _entered(stmt, place)
            if entered is not None:
                self.check(stmt.body, entered)
        elif isinstance(stmt, S.SeqStmt | S.AttrStmt):
            for child in visit.children(stmt):
                self.check(child, place)

    def _region(self, region: ir.TensorRegion, place: _Place) -> None:
        tile = region.source
        if regions.scope(tile) == regions.GLOBAL:
            return
        for axis, (part, size) in enumerate(zip(region.region, tile.shape, strict=True)):
            length, extent = constant(part.extent), constant(size)
            if not length or extent is None:
                continue
            for start, where in self._outside(part.min, extent - length, place):
                raise RegionOutOfRangeError(
                    f"a region of the tile {tile.name} is {start}:{start + length} on axis {axis}, whose extent is "
                    f"{extent}, at {where}",
                    remedy="make the region or the loop end at the tile's end, or allocate a larger tile",
                    span=from_tvm(place.span),
                )

    def _loads(self, value: ir.Expr, place: _Place) -> None:
        """Check what an expression reads, unless it may leave a part of itself out."""
        loads = visit.collect(value, ir.TensorLoad)
        if loads and not any(map(_chooses, visit.collect(value, (E.Select, E.And, E.Or, ir.Call)))):
            for load in loads:
                self._element(load.source, load.indices, place)

    def _element(self, tile: ir.Var, indices: Sequence[ir.Expr], place: _Place) -> None:
        """Check an element of a fragment, which no check of a run on a device sees."""
        if regions.scope(tile) != regions.FRAGMENT:
            return
        for axis, (index, size) in enumerate(zip(indices, tile.shape, strict=True)):
            extent = constant(size)
            if not extent:
                continue
            for start, where in self._outside(index, extent - 1, place):
                raise RegionOutOfRangeError(
                    f"an element of the fragment {tile.name} is at {start} on axis {axis}, whose extent is {extent}, "
                    f"at {where}",
                    remedy="let the loop end at its end, put an `if` around the access, or enlarge the fragment",
                    span=from_tvm(place.span),
                )

    def _outside(self, start: ir.Expr, last: int, place: _Place) -> Iterator[tuple[int, str]]:
        """The starts that are below 0 or beyond `last` for certain, and the iteration of each as text."""
        if constant(start) is not None:
            return
        for values in self._extremes(start, place):
            found = constant(self._analyzer.simplify(substitute(substitute(start, self._names), values)))
            if found is not None and not 0 <= found <= last:
                yield found, ", ".join(f"{var.name}={value}" for var, value in values.items())

    def _extremes(self, start: ir.Expr, place: _Place) -> Iterator[dict[ir.Var, ir.Expr]]:
        """The values of the loops that `start` depends on, each in its first or its last iteration."""
        used = dict.fromkeys(visit.collect(substitute(start, self._names), ir.Var))
        loops = [var for var in used if var in place.ends]
        if not loops or len(loops) > MOST_LOOPS:
            return
        for ends in itertools.product(*(place.ends[var] for var in loops)):
            yield {var: tirx.IntImm(var.ty, end) for var, end in zip(loops, ends, strict=True)}


def _chooses(node: ir.Expr) -> bool:
    return not isinstance(node, ir.Call) or str(getattr(node.op, "name", "")) == IF_THEN_ELSE


def _entered(loop: S.For, place: _Place) -> _Place | None:
    """The place inside of a loop; `None` where not every iteration is certain to run to its end."""
    if visit.collect(loop.body, (S.Break, S.Continue, S.Return)):
        return None
    low, count = constant(loop.min), constant(loop.extent)
    if loop.kind == S.ForKind.THREAD_BINDING and count is None:
        return place  # A launch without blocks runs nothing, and is no reason to allow what every block does.
    if low is None or not count or count < 0 or loop.step is not None:
        return None
    return replace(place, ends={**place.ends, loop.loop_var: tuple(sorted({low, low + count - 1}))})
