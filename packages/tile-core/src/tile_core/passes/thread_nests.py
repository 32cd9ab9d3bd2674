"""One parallel nest as the loops of a thread, its vectors whole where they may be and lane by lane where not."""

from __future__ import annotations

from math import prod

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.layouts.mapping import Lane
from tile_core.passes.accesses import substitute
from tile_core.passes.infer_layouts import NestPlan
from tile_core.passes.nests import ParallelNest
from tile_core.passes.thread_scope import ThreadScope, conjunction, guarded, int32
from tile_core.passes.vector_units import vector_unit

UNROLLED_STEPS = 64


def emit_nest(scope: ThreadScope, nest: ParallelNest) -> S.Stmt:
    """The statements by which every thread runs its share of `nest`."""
    plan = scope.plan.nests[nest.variables[0]]
    return _Emitter(scope, nest, plan).result()


class _Emitter:
    def __init__(self, scope: ThreadScope, nest: ParallelNest, plan: NestPlan) -> None:
        self._scope, self._nest, self._plan = scope, nest, plan
        self._mapping = plan.mapping
        self._steps = step_variables(len(self._mapping.steps))
        self._index = self._mapping.indices(scope.thread, self._steps)
        self._span = nest.loops[0].span

    def result(self) -> S.Stmt:
        names = [tirx.Var(str(var.name), var.ty) for var in self._nest.variables]
        binds: list[S.Stmt] = [
            S.Bind(name, _as(index, name), self._span) for name, index in zip(names, self._index, strict=True)
        ]
        body: S.Stmt = visit.sequence([*binds, self._unit(names)], self._span)
        kind = S.ForKind.UNROLLED if self._is_short() or self._uses_registers() else S.ForKind.SERIAL
        for step, count in reversed(list(zip(self._steps, self._mapping.steps, strict=True))):
            extent = int32(count) if isinstance(count, int) else count
            body = S.For(step, int32(0), extent, kind, body, span=self._span)
        return body

    def _is_short(self) -> bool:
        counts = self._mapping.steps
        return all(isinstance(count, int) for count in counts) and prod(counts) <= UNROLLED_STEPS

    def _uses_registers(self) -> bool:
        wanted = set(self._scope.registers)
        return any(load.source in wanted for load in visit.collect(self._nest.body, ir.TensorLoad)) or any(
            store.buffer in wanted for store in visit.collect(self._nest.body, S.BufferStore)
        )

    def _unit(self, names: list[ir.Var]) -> S.Stmt:
        """The work of one step: `vector` lanes from the index in `names`, without guards where all are inside."""
        width = self._mapping.vector
        if width == 1:
            return guarded(self._guards(names, 0, 0), self._lane_body(names, int32(0)))
        lanes = self._lane_by_lane(names, guarded_lanes=True)
        whole = vector_unit(
            self._scope,
            self._body_at(names, int32(0)),
            names[-1],
            self._mapping,
            lambda lane: self._lane_body(names, lane),
        )
        conditions = self._guards(names, 0, width - 1)
        if whole is None:
            fast = self._lane_by_lane(names, guarded_lanes=False)
        else:
            fast, conditions = whole.stmt, [*conditions, *whole.conditions]
        return S.IfThenElse(conjunction(conditions), fast, lanes, self._span) if conditions else fast

    def _lane_by_lane(self, names: list[ir.Var], *, guarded_lanes: bool) -> S.Stmt:
        lane = tirx.Var("lane", "int32")
        guards = self._guards(names, lane, lane) if guarded_lanes else []
        body = guarded(guards, self._lane_body(names, lane))
        return S.For(lane, int32(0), int32(self._mapping.vector), S.ForKind.UNROLLED, body, span=self._span)

    def _guards(self, names: list[ir.Var], first: Lane, last: Lane) -> list[ir.Expr]:
        """Conditions on lanes `first` to `last`: those of the mapping, and those of a nest smaller than its class."""
        found = self._mapping.guards(self._scope.thread, self._steps, names, first, last)
        for axis, (own, whole) in enumerate(zip(self._plan.extents, self._mapping.extents, strict=True)):
            if isinstance(own, int) and isinstance(whole, int) and own < whole:
                reach = last if axis == len(names) - 1 else 0
                found.append(E.LT(names[axis] + reach, int32(own)))
        return found

    def _body_at(self, names: list[ir.Var], lane: ir.Expr) -> S.Stmt:
        values = dict(zip(self._nest.variables, names, strict=True))
        last = self._nest.variables[-1]
        if not (isinstance(lane, E.IntImm) and lane.value == 0):
            values[last] = values[last] + (lane if str(lane.ty.dtype) == str(last.ty.dtype) else lane.astype(last.ty))
        return substitute(self._nest.body, values)

    def _lane_body(self, names: list[ir.Var], lane: ir.Expr) -> S.Stmt:
        """One iteration, with fragments as registers and its outside effects made by one replica."""
        steps = dict(zip(self._plan.classes, self._steps, strict=False))
        body = self._scope.rewrite(self._body_at(names, lane), steps, lane)
        return self._once(body)

    def _once(self, body: S.Stmt) -> S.Stmt:
        spare = [
            E.EQ(tirx.floormod(tirx.floordiv(self._scope.thread, int32(stride)), int32(count)), int32(0))
            for stride, count in self._plan.spare
        ]
        if not spare:
            return body

        def store(node: S.BufferStore, _mutator: object) -> S.Stmt:
            private = regions.scope(node.buffer) in (regions.LOCAL, regions.VAR)
            return node if private else guarded(spare, node)

        def evaluate(node: S.Evaluate, _mutator: object) -> S.Stmt:
            return guarded(spare, node) if isinstance(node.value, ir.Call) else node

        return visit.mutate(body, (S.BufferStore, store), (S.Evaluate, evaluate))


def step_variables(count: int) -> list[ir.Var]:
    """Names for the step counters of a thread."""
    return [tirx.Var("step" if count == 1 else f"step_{axis}", "int32") for axis in range(count)]


def _as(expr: ir.Expr, like: ir.Var) -> ir.Expr:
    """`expr` in the dtype of a loop variable."""
    return expr if str(expr.ty.dtype) == str(like.ty.dtype) else expr.astype(str(like.ty.dtype))
