"""One parallel nest as the loops of a thread, its vectors whole where they may be and lane by lane where not.

The loads of several units are made before the first of them is worked on, so that a thread waits for memory once
(`BATCH_BYTES` bounds the registers that this takes). Where units begin behind a head, the edges come after those loads.
A thread whose registers are full of fragments has less room for that (`ThreadScope.room`): it moves a few units at a
time, in a loop that stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.layouts.mapping import FlatMapping, Lane
from tile_core.passes.accesses import substitute
from tile_core.passes.layout_plan import NestPlan
from tile_core.passes.nests import ParallelNest
from tile_core.passes.ranges import unmarked
from tile_core.passes.thread_products import emit_product
from tile_core.passes.thread_scope import BATCH_BYTES, ThreadScope, conjunction, guarded, int32, made_once
from tile_core.passes.unroll_loops import UNROLL_FACTOR
from tile_core.passes.vector_units import NameValues, VectorUnit, vector_unit

UNROLLED_STEPS = 64


def emit_nest(scope: ThreadScope, nest: ParallelNest) -> S.Stmt:
    """The statements by which every thread runs its share of `nest`."""
    plan = scope.plan.nests[nest.variables[0]]
    steps = step_variables(len(plan.mapping.steps))
    product = emit_product(scope, nest, plan, steps)
    return _Emitter(scope, nest, plan).result() if product is None else product


def emit_vectorized(scope: ThreadScope, loop: S.For, names: NameValues) -> S.Stmt | None:
    """A `T.vectorized` loop of one thread as whole vectors; `None` where nothing in it moves as one.

    `names` are those that stand around it, with their values.
    """
    extent = regions.constant(loop.extent)
    if loop.kind != S.ForKind.VECTORIZED or extent is None or extent < 2 or extent & (extent - 1):
        return None
    if regions.constant(loop.min) != 0:
        return None
    first = tirx.Var(str(loop.loop_var.name), loop.loop_var.ty)

    def at(lane: ir.Expr) -> S.Stmt:
        return substitute(loop.body, {loop.loop_var: first + _as(lane, first)})

    def one_lane(lane: ir.Expr) -> S.Stmt:
        return scope.rewrite(at(lane), {}, 0)

    unit = vector_unit(scope, at(int32(0)), first, FlatMapping((extent,), 1, extent), one_lane, names)
    if unit is None:
        return None
    zero = int32(0)
    whole = visit.sequence([*unit.arrays(1), unit.loads(zero), unit.work(zero)], loop.span)
    if unit.conditions:
        lane = tirx.Var("lane", "int32")
        lanes = S.For(lane, zero, int32(extent), S.ForKind.UNROLLED, one_lane(lane), span=loop.span)
        whole = S.IfThenElse(conjunction(unit.conditions), whole, lanes, loop.span)
    return visit.mutate(substitute(whole, {first: E.IntImm(first.ty, 0)}), (E.Add, _without_zero))


def _without_zero(node: E.Add, mutator: Any) -> ir.Expr:
    total = mutator.default_mutate(node)
    return total.a if isinstance(total.b, E.IntImm) and total.b.value == 0 else total


@dataclass(frozen=True)
class _Counter:
    """A loop over steps: one of the mapping's, or a part of it."""

    var: ir.Var
    extent: Any


class _Emitter:
    def __init__(self, scope: ThreadScope, nest: ParallelNest, plan: NestPlan) -> None:
        self._scope, self._nest, self._plan = scope, nest, plan
        self._mapping = plan.mapping
        self._steps = step_variables(len(self._mapping.steps))
        self._index = self._mapping.indices(scope.thread, self._steps)
        self._span = nest.loops[0].span
        self._names = [tirx.Var(str(var.name), var.ty) for var in nest.variables]
        self._unit = self._vector_unit()

    def result(self) -> S.Stmt:
        """The edges go between the loads and the work of a single batch, before the loops elsewhere.

        So a thread with both waits for memory once.
        """
        outer, batch = self._batches()
        slots = prod(counter.extent for counter in batch)
        edges = self._edges()
        if self._unit is None:
            return visit.sequence([*edges, self._loops(outer, self._once_indexed(self._lanes_only()))])
        before, between = (edges, []) if outer else ([], edges)
        alone = slots == 1 and not between
        body = self._one_by_one(self._unit) if alone else self._batch(self._unit, batch, slots, between)
        return visit.sequence([*before, self._loops(outer, body)], self._span)

    # -- loops -------------------------------------------------------------------------------------------------------

    def _batches(self) -> tuple[list[_Counter], list[_Counter]]:
        """The loops over steps: the outer ones, and the innermost ones whose loads are made together."""
        outer = [_Counter(var, count) for var, count in zip(self._steps, self._mapping.steps, strict=True)]
        room = self._room()
        batch: list[_Counter] = []
        outer = [counter for counter in outer if not self._fix(counter)]
        while room > 1 and outer and isinstance(outer[-1].extent, int) and outer[-1].extent:
            counter = outer.pop()
            part = max(divisor for divisor in range(1, room + 1) if counter.extent % divisor == 0)
            if part < counter.extent:
                outer.append(_Counter(counter.var, counter.extent // part))
                self._split(counter.var, part, batch)
                break
            batch.insert(0, counter)
            room //= counter.extent
        return outer, batch

    def _split(self, var: ir.Var, part: int, batch: list[_Counter]) -> None:
        """`var` counts groups of `part` steps from now on."""
        if part == 1:
            return
        inner = tirx.Var(str(var.name), "int32")
        batch.insert(0, _Counter(inner, part))
        self._index = [substitute(index, {var: var * part + inner}) for index in self._index]
        self._steps = [step if not step.same_as(var) else var * part + inner for step in self._steps]

    def _fix(self, counter: _Counter) -> bool:
        """Replace a counter that is always 0."""
        if counter.extent != 1:
            return False
        zero = {counter.var: int32(0)}
        self._index = [substitute(index, zero) for index in self._index]
        self._steps = [substitute(step, zero) for step in self._steps]
        return True

    def _room(self) -> int:
        """How many units a thread may read at once."""
        read = 0 if self._unit is None else self._unit.load_bytes
        room = self._scope.room if self._stays_rolled() else BATCH_BYTES
        return max(1, room // read) if read else 1

    def _loops(self, counters: Sequence[_Counter], body: S.Stmt) -> S.Stmt:
        kind = S.ForKind.UNROLLED if self._is_short() or self._uses_registers() else S.ForKind.SERIAL
        marks = {UNROLL_FACTOR: 1} if self._stays_rolled() else {}
        for counter in reversed(counters):
            extent = int32(counter.extent) if isinstance(counter.extent, int) else counter.extent
            body = S.For(counter.var, int32(0), extent, kind, body, annotations=marks, span=self._span)
        return body

    def _stays_rolled(self) -> bool:
        """Whether the nest moves data past fragments that fill the registers."""
        return self._scope.room < BATCH_BYTES and not self._uses_registers()

    def _is_short(self) -> bool:
        counts = self._mapping.steps
        return all(isinstance(count, int) for count in counts) and prod(counts) <= UNROLLED_STEPS

    def _uses_registers(self) -> bool:
        wanted = set(self._scope.registers)
        return any(load.source in wanted for load in visit.collect(self._nest.body, ir.TensorLoad)) or any(
            store.buffer in wanted for store in visit.collect(self._nest.body, S.BufferStore)
        )

    # -- units -------------------------------------------------------------------------------------------------------

    def _vector_unit(self) -> VectorUnit | None:
        if self._mapping.vector == 1:
            return None
        body = self._body_at(self._names, int32(0))
        lane_body = self._bare_lane_body
        return vector_unit(self._scope, body, self._names[-1], self._mapping, lane_body, spare=self._spare)

    def _once_indexed(self, body: S.Stmt) -> S.Stmt:
        """`body` behind the definitions of the nest's variables."""
        binds: list[S.Stmt] = [
            S.Bind(name, _as(index, name), self._span) for name, index in zip(self._names, self._index, strict=True)
        ]
        return visit.sequence([*binds, body], self._span)

    def _one_by_one(self, unit: VectorUnit) -> S.Stmt:
        slot = int32(0)
        body = visit.sequence([*unit.arrays(1), unit.loads(slot), unit.work(slot)], self._span)
        return self._once_indexed(self._where_whole(body, unit.conditions))

    def _batch(self, unit: VectorUnit, batch: list[_Counter], slots: int, between: list[S.Stmt]) -> S.Stmt:
        """The loads of all units of the batch, then the work of each."""
        slot: Any = int32(0)
        for counter in batch:
            slot = slot * counter.extent + counter.var
        conditions = [*self._whole(), *unit.conditions]
        arrays = unit.arrays(slots)
        loads = self._once_indexed(guarded(conditions, unit.loads(slot)))
        work = self._once_indexed(self._where_whole(unit.work(slot), unit.conditions))
        fresh = {counter.var: tirx.Var(str(counter.var.name), "int32") for counter in batch}
        fresh |= {name: tirx.Var(str(name.name), name.ty) for name in self._names}
        early = [_Counter(fresh[counter.var], counter.extent) for counter in batch]
        first = self._loops(early, _renamed(loads, fresh))
        return visit.sequence([*arrays, first, *between, self._loops(batch, work)], self._span)

    def _whole(self) -> list[ir.Expr]:
        """What makes all lanes of a unit iterations of the nest."""
        last = self._mapping.vector - 1
        return [*self._inside(0, last), *self._within_own_extents(last)]

    def _where_whole(self, body: S.Stmt, conditions: list[ir.Expr]) -> S.Stmt:
        """`body` where the unit is whole, lane by lane elsewhere."""
        last = self._mapping.vector - 1
        outside = [] if self._mapping.head is None else self._inside(0, last)
        inside = self._inside(0, last) if self._mapping.head is None else []
        wanted = [*inside, *self._within_own_extents(last), *conditions]
        if wanted:
            whole, lanes = conjunction(wanted), self._lane_by_lane(guarded_lanes=True)
            body = S.IfThenElse(whole, body, None if _is_idle(lanes, E.Not(whole)) else lanes, self._span)
        return guarded(outside, body)

    def _lanes_only(self) -> S.Stmt:
        """A unit without vector accesses."""
        if self._mapping.vector == 1:
            return guarded(self._whole(), self._lane_body(int32(0)))
        return self._where_whole(self._lane_by_lane(guarded_lanes=False), [])

    def _edges(self) -> list[S.Stmt]:
        """The iterations before the head and behind the last whole unit: one a thread."""
        count = self._mapping.edge_steps
        if not count:
            return []
        edge, name = tirx.Var("edge", "int32"), tirx.Var(str(self._nest.variables[0].name), self._names[0].ty)
        step: ir.Expr = int32(0) if count == 1 else edge
        steps = {self._plan.classes[0]: int32(prod(self._mapping.steps))}
        own = self._once(self._scope.rewrite(self._body_at([name], int32(0)), steps, step))
        extent = min(self._plan.extents[0], self._mapping.extents[0])
        body = visit.sequence(
            [
                S.Bind(name, _as(self._mapping.edge(self._scope.thread, step), name), self._span),
                guarded([E.LT(name, E.IntImm(name.ty, extent))], own),
            ],
            self._span,
        )
        return [body if count == 1 else self._loops([_Counter(edge, count)], body)]

    def _lane_by_lane(self, *, guarded_lanes: bool) -> S.Stmt:
        lane = tirx.Var("lane", "int32")
        guards = self._within_own_extents(lane) if guarded_lanes else []
        if guarded_lanes and self._mapping.head is None:
            guards = [*self._inside(lane, lane), *guards]
        body = guarded(guards, self._lane_body(lane))
        return S.For(lane, int32(0), int32(self._mapping.vector), S.ForKind.UNROLLED, body, span=self._span)

    def _inside(self, first: Lane, last: Lane) -> list[ir.Expr]:
        """The mapping's conditions on lanes `first` to `last`."""
        return self._mapping.guards(self._scope.thread, self._steps, self._names, first, last)

    def _within_own_extents(self, last: Lane) -> list[ir.Expr]:
        """The conditions, up to lane `last`, of a nest that is smaller than its class."""
        found: list[ir.Expr] = []
        for axis, (own, whole) in enumerate(zip(self._plan.extents, self._mapping.extents, strict=True)):
            if isinstance(own, int) and isinstance(whole, int) and own < whole:
                reach = last if axis == len(self._names) - 1 else 0
                found.append(E.LT(self._names[axis] + reach, int32(own)))
        return found

    def _body_at(self, names: list[ir.Var], lane: ir.Expr) -> S.Stmt:
        values = dict(zip(self._nest.variables, names, strict=True))
        last = self._nest.variables[-1]
        if not (isinstance(lane, E.IntImm) and lane.value == 0):
            values[last] = values[last] + (lane if str(lane.ty.dtype) == str(last.ty.dtype) else lane.astype(last.ty))
        return substitute(self._nest.body, values)

    def _lane_body(self, lane: ir.Expr) -> S.Stmt:
        """One iteration, with fragments as registers and its outside effects made by one replica."""
        return self._once(self._bare_lane_body(lane))

    def _bare_lane_body(self, lane: ir.Expr) -> S.Stmt:
        steps = dict(zip(self._plan.classes, self._steps, strict=False))
        return self._scope.rewrite(self._body_at(self._names, lane), steps, lane)

    def _once(self, body: S.Stmt) -> S.Stmt:
        return made_once(self._spare, body)

    @property
    def _spare(self) -> list[ir.Expr]:
        """What holds for one of the threads that run an iteration."""
        thread = self._scope.thread
        return [
            E.EQ(tirx.floormod(tirx.floordiv(thread, int32(stride)), int32(count)), int32(0))
            for stride, count in self._plan.spare
        ]


def step_variables(count: int) -> list[ir.Var]:
    """Names for the step counters of a thread."""
    return [tirx.Var("step" if count == 1 else f"step_{axis}", "int32") for axis in range(count)]


def _is_idle(stmt: S.Stmt, fact: ir.Expr) -> bool:
    """Whether a statement is known to do nothing where `fact` holds: its guards are the same for all lanes."""
    while isinstance(stmt, S.For):
        stmt = stmt.body
    if not isinstance(stmt, S.IfThenElse) or stmt.else_case is not None:
        return False
    analyzer = Analyzer()
    with analyzer.constraint_scope(fact):
        return analyzer.can_prove(E.Not(unmarked(stmt.condition)))


def _renamed(stmt: S.Stmt, names: dict[ir.Var, ir.Var]) -> S.Stmt:
    """`stmt` with other variables, the binds of them included."""
    binds = (S.Bind, lambda node, mutator: S.Bind(names.get(node.var, node.var), mutator.mutate(node.value), node.span))
    return visit.mutate(stmt, binds, (ir.Var, lambda var, _mutator: names.get(var, var)))


def _as(expr: ir.Expr, like: ir.Var) -> ir.Expr:
    """`expr` in the dtype of a loop variable."""
    return expr if str(expr.ty.dtype) == str(like.ty.dtype) else expr.astype(str(like.ty.dtype))
