"""Refuse regions that leave their tile in an iteration that is certain to run.

A tensor's region may hang over its edge, where it is guarded; a tile ends at its last element. Constants are checked
while a program is traced. Here, starts that are computed from loops of constant bounds are looked at in the first and
in the last iteration, where they are smallest and largest. What stands under a condition, in a loop that may end
early, or depends on anything else is only known when it runs: the interpreter and the emulator's checks find it there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import RegionOutOfRangeError
from tile_core.ir import launch, regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.passes.accesses import substitute
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
            if not reads_memory(stmt.value):
                self._names[stmt.var] = substitute(stmt.value, self._names)
        elif isinstance(stmt, S.Evaluate):
            for region in visit.collect(stmt, ir.TensorRegion):
                self._region(region, place)
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
            if not length or extent is None or constant(part.min) is not None:
                continue
            for values in self._extremes(part.min, place):
                start = constant(self._analyzer.simplify(substitute(substitute(part.min, self._names), values)))
                if start is not None and not 0 <= start <= extent - length:
                    where = ", ".join(f"{var.name}={value}" for var, value in values.items())
                    raise RegionOutOfRangeError(
                        f"a region of the tile {tile.name} is {start}:{start + length} on axis {axis}, whose extent is "
                        f"{extent}, at {where}",
                        remedy="make the region or the loop end at the tile's end, or allocate a larger tile",
                        span=from_tvm(place.span),
                    )

    def _extremes(self, start: ir.Expr, place: _Place) -> Iterator[dict[ir.Var, ir.Expr]]:
        """The values of the loops that `start` depends on, each in its first or its last iteration."""
        used = dict.fromkeys(visit.collect(substitute(start, self._names), ir.Var))
        loops = [var for var in used if var in place.ends]
        if not loops or len(loops) > MOST_LOOPS:
            return
        for ends in itertools.product(*(place.ends[var] for var in loops)):
            yield {var: tirx.IntImm(var.ty, end) for var, end in zip(loops, ends, strict=True)}


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
