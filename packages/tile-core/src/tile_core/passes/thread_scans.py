"""A scan of a fragment in registers along its last axis: lanes, then the threads of a warp, then warps and steps.

The elements that a thread holds along the axis are, step by step, a vector of neighbours, and the threads of the axis
are neighbours too. So a step's elements lie in order of thread and lane: a thread scans its own lanes, the lanes of a
warp add the totals of those before them (a butterfly, which leaves the warp's total in every lane), and what the warps
and steps before hold is added last. Shared memory holds one value a warp and step; there is one barrier.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ops.base import OpCall
from tile_core.ops.build import Cell, Tile, cast, number
from tile_core.ops.reduce import KINDS, accumulation_dtype
from tile_core.passes.thread_nests import step_variables
from tile_core.passes.thread_scope import ThreadScope, guarded, int32, phase, shuffle_xor


def emit_scan(scope: ThreadScope, call: OpCall) -> S.Stmt:
    """The statements for one checked `tile.scan` whose operands are whole fragments in registers."""
    return _Scan(scope, call).result()


class _Scan:
    def __init__(self, scope: ThreadScope, call: OpCall) -> None:
        self._scope, self._span = scope, call.span
        self._src = scope.registers[call.region("src").source]
        self._dst = scope.registers[call.region("dst").source]
        self._buffers = call.region("src").source, call.region("dst").source
        self._kind = KINDS[str(call.attrs["kind"])]
        self._reverse = bool(call.attrs.get("reverse", 0))
        src, dst = Tile(call.region("src")), Tile(call.region("dst"))
        self._dst_dtype = dst.dtype
        self._dtype = accumulation_dtype(self._kind, src.dtype, dst.dtype)
        self._mapping = self._src.placement.mapping
        self._classes = self._src.placement.classes
        self._group = scope.plan.groups[self._buffers[0]]
        (self._threads, _stride) = self._group.digits[self._classes[-1]][0]
        self._lanes = self._mapping.vector
        self._steps = int(self._mapping.steps[-1])

    # -- values ------------------------------------------------------------------------------------------------------

    def _array(self, name: str, elements: int) -> ir.Var:
        return tirx.decl_buffer((elements,), self._dtype.tvm, name, scope=regions.LOCAL)

    @property
    def _identity(self) -> ir.Expr:
        return number(self._kind.identity(self._dtype), self._dtype)

    def _combine(self, before: ir.Expr, after: ir.Expr) -> ir.Expr:
        return self._kind.combine(before, after, True)

    def _put(self, array: ir.Var, value: ir.Expr, index: ir.Expr) -> S.Stmt:
        return S.BufferStore(array, value, [index], self._span)

    def _loop(self, name: str, count: int, body: Any) -> S.Stmt:
        """`body(index)` unrolled, in the order of the scan."""
        var = tirx.Var(name, "int32")
        index: ir.Expr = int32(count - 1) - var if self._reverse else var
        if count == 1:
            return body(int32(0))
        return S.For(var, int32(0), int32(count), S.ForKind.UNROLLED, body(index), span=self._span)

    # -- the scan ----------------------------------------------------------------------------------------------------

    def result(self) -> S.Stmt:
        """A loop over the rows of a thread."""
        outer = self._classes[:-1]
        variables = step_variables(len(outer))
        body = self._row(dict(zip(outer, variables, strict=True)))
        for variable, count in reversed(list(zip(variables, self._mapping.steps[:-1], strict=True))):
            body = S.For(variable, int32(0), int32(count), S.ForKind.UNROLLED, body, span=self._span)
        return body

    def _row(self, rows: dict[int, ir.Expr]) -> S.Stmt:
        scanned = self._array("scanned", self._steps * self._lanes)
        totals, before = self._array("totals", self._steps), self._array("before", self._steps)
        parts: list[S.Stmt] = [*map(S.AllocBuffer, (scanned, totals, before))]
        parts.append(phase(self._loop("step", self._steps, lambda step: self._own(rows, scanned, totals, step))))
        parts.append(self._loop("step", self._steps, lambda step: self._within_warp(totals, before, step)))
        parts += self._across(totals, before)
        parts.append(phase(self._loop("step", self._steps, lambda step: self._store(rows, scanned, before, step))))
        return visit.sequence(parts, self._span)

    def _own(self, rows: dict[int, ir.Expr], scanned: ir.Var, totals: ir.Var, step: ir.Expr) -> S.Stmt:
        """A thread's own lanes of one step."""
        at = {**rows, self._classes[-1]: step}
        own = [at[number] for number in self._classes]
        index = self._mapping.indices(self._scope.thread, own)
        total = Cell.new("running", self._dtype)

        def lane_step(lane: ir.Expr) -> S.Stmt:
            register = self._scope.register(self._buffers[0], at, lane)
            value = cast(tirx.BufferLoad(self._src.array, [register]), self._dtype)
            inside = self._mapping.guards(self._scope.thread, own, index, lane, lane)
            add = total.set(self._combine(total.get(), value), self._span)
            return visit.sequence(
                [guarded(inside, add), self._put(scanned, total.get(), step * self._lanes + lane)], self._span
            )

        return visit.sequence(
            [
                total.declare(self._span),
                total.set(self._identity, self._span),
                self._loop("lane", self._lanes, lane_step),
                self._put(totals, total.get(), step),
            ],
            self._span,
        )

    def _within_warp(self, totals: ir.Var, before: ir.Var, step: ir.Expr) -> S.Stmt:
        """What the lanes before this one hold, and the total of all of them."""
        found: list[S.Stmt] = [self._put(before, self._identity, step)]
        distance = 1
        while distance < min(self._threads, self._scope.warp):
            other = Cell.new("other", self._dtype)
            total = tirx.BufferLoad(totals, [step])
            mine = E.NE(tirx.bitwise_and(self._scope.thread, int32(distance)), int32(0))
            is_after = E.Not(mine) if self._reverse else mine
            grown = self._combine(other.get(), tirx.BufferLoad(before, [step]))
            found += [
                other.declare(self._span),
                other.set(shuffle_xor(total, distance, self._scope.block), self._span),
                self._put(before, tirx.Select(is_after, grown, tirx.BufferLoad(before, [step])), step),
                self._put(totals, self._combine(total, other.get()), step),
            ]
            distance *= 2
        return visit.sequence(found, self._span)

    def _across(self, totals: ir.Var, before: ir.Var) -> list[S.Stmt]:
        """Add what earlier warps and steps hold."""
        running = Cell.new("running", self._dtype)
        start = [running.declare(self._span), running.set(self._identity, self._span)]
        warps, warp = self._threads // self._scope.warp, self._scope.warp
        if warps <= 1:

            def carry(step: ir.Expr) -> S.Stmt:
                grown = self._combine(running.get(), tirx.BufferLoad(before, [step]))
                total = self._combine(running.get(), tirx.BufferLoad(totals, [step]))
                return visit.sequence([self._put(before, grown, step), running.set(total, self._span)], self._span)

            return [*start, self._loop("step", self._steps, carry)]
        thread, every = self._scope.thread, -(-self._scope.block // warp)
        workspace = self._scope.workspace("scan", self._dtype.tvm, self._steps * every)
        own = tirx.floordiv(thread, int32(warp))
        first: ir.Expr = int32(0)
        if self._threads < self._scope.block:
            # Threads beyond those in use repeat the work of the first ones.
            used = thread if self._group.used == self._scope.block else tirx.floormod(thread, int32(self._group.used))
            first = tirx.floordiv(used, int32(self._threads)) * warps

        def leave(step: ir.Expr) -> S.Stmt:
            return S.BufferStore(workspace, tirx.BufferLoad(totals, [step]), [step * every + own], self._span)

        def gather(step: ir.Expr) -> S.Stmt:
            def member(at: ir.Expr) -> S.Stmt:
                old = tirx.BufferLoad(before, [step])
                mine = E.EQ(first + at, own)
                added = tirx.Select(mine, self._combine(running.get(), old), old)
                value = tirx.BufferLoad(workspace, [step * every + first + at])
                grown = running.set(self._combine(running.get(), value), self._span)
                return visit.sequence([self._put(before, added, step), grown], self._span)

            return self._loop("member", warps, member)

        is_first = E.EQ(tirx.floormod(thread, int32(warp)), int32(0))
        leaving = S.IfThenElse(is_first, self._loop("step", self._steps, leave), None, self._span)
        gathering = visit.sequence([*start, self._loop("step", self._steps, gather)], self._span)
        return [phase(leaving), phase(gathering)]

    def _store(self, rows: dict[int, ir.Expr], scanned: ir.Var, before: ir.Var, step: ir.Expr) -> S.Stmt:
        at = {**rows, self._classes[-1]: step}

        def lane_step(lane: ir.Expr) -> S.Stmt:
            value = tirx.BufferLoad(scanned, [step * self._lanes + lane])
            whole = cast(self._combine(tirx.BufferLoad(before, [step]), value), self._dst_dtype)
            return self._put(self._dst.array, whole, self._scope.register(self._buffers[1], at, lane))

        return self._loop("lane", self._lanes, lane_step)
