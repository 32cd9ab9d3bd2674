"""A reduction between two fragments in registers: each thread its own part, then the threads of a group together."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ops.base import OpCall
from tile_core.ops.build import Cell, Tile, cast, number
from tile_core.ops.reduce import accumulation_dtype, axis_of, kind_of
from tile_core.passes.thread_combine import Combination, ThreadGroup
from tile_core.passes.thread_nests import step_variables
from tile_core.passes.thread_scope import ThreadScope, conjunction, guarded, int32, phase

CHAINS = 4
"""Partial results of a thread that has many elements of an output."""

Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]


def emit_reduction(scope: ThreadScope, call: OpCall, *, is_partial: bool = False) -> S.Stmt:
    """The statements for one checked `tile.reduce` whose operands are whole fragments in registers.

    A partial one leaves in each thread what its own elements give.
    """
    return _Reduction(scope, call, is_partial=is_partial).result()


class _Reduction:
    def __init__(self, scope: ThreadScope, call: OpCall, *, is_partial: bool) -> None:
        self._scope, self._call, self._span = scope, call, call.span
        self._is_partial = is_partial
        self._src = scope.registers[call.region("src").source]
        self._dst = scope.registers[call.region("dst").source]
        self._group = scope.plan.groups[call.region("src").source]
        self._axis = axis_of(call)
        self._kind = kind_of(call)
        src, dst = Tile(call.region("src")), Tile(call.region("dst"))
        self._src_dtype, self._dst_dtype = src.dtype, dst.dtype
        self._dtype = accumulation_dtype(self._kind, src.dtype, dst.dtype)
        self._nan = bool(call.attrs.get("nan_propagate", 0))
        self._reduced = self._reduced_class()
        self._total = Cell.new("total", self._dtype)

    def _reduced_class(self) -> int | None:
        """The class of the reduced axis; `None` for an axis of extent 1 that nothing walks."""
        missing = set(self._src.placement.classes) - set(self._dst.placement.classes)
        assert len(missing) <= 1
        return next(iter(missing), None)

    def result(self) -> S.Stmt:
        """A loop over the outputs of a thread."""
        kept = [number for number in self._src.placement.classes if number != self._reduced]
        counts = [self._steps(number) for number in kept]
        variables = dict(zip(kept, step_variables(len(kept)), strict=True))
        lanes = self._lanes(kept[-1]) if kept else 1
        lane: ir.Expr = tirx.Var("lane", "int32") if lanes > 1 else int32(0)
        body = self._one_output(variables, lane)
        if lanes > 1:
            body = S.For(lane, int32(0), int32(lanes), S.ForKind.UNROLLED, body, span=self._span)
        for variable, count in reversed(list(zip(variables.values(), counts, strict=True))):
            body = S.For(variable, int32(0), int32(count), S.ForKind.UNROLLED, body, span=self._span)
        return body

    def _lanes(self, number: int) -> int:
        """Lanes along a class: those of the tile's mapping where the class is its last axis."""
        placement = self._src.placement
        return placement.mapping.vector if number == placement.classes[-1] else 1

    def _steps(self, number: int) -> int:
        placement = self._src.placement
        return int(placement.mapping.steps[placement.classes.index(number)])

    def _one_output(self, variables: dict[int, ir.Expr], lane: ir.Expr) -> S.Stmt:
        identity = number(self._kind.identity(self._dtype), self._dtype)
        parts: list[S.Stmt] = [
            self._total.declare(self._span),
            phase(visit.sequence([self._total.set(identity, self._span), self._own_part(variables, lane)])),
            *self._together(identity),
            phase(self._store(variables, lane)),
        ]
        return visit.sequence(parts, self._span)

    def _own_part(self, variables: dict[int, ir.Expr], lane: ir.Expr) -> S.Stmt:
        """Combine the registers of this thread that belong to the output."""
        reduced = self._reduced
        steps = dict(variables)
        if reduced is None:
            return guarded(self._inside(steps, lane, lane), self._own_element(steps, lane))
        if self._is_long(reduced, steps):
            return self._side_by_side(reduced, steps)
        step = tirx.Var("part", "int32")
        steps[reduced] = step
        if self._lanes(reduced) > 1:
            body = self._own_lanes(steps, self._lanes(reduced))
        else:
            body = guarded(self._inside(steps, lane, lane), self._own_element(steps, lane))
        parts = S.For(step, int32(0), int32(self._steps(reduced)), S.ForKind.UNROLLED, body, span=self._span)
        return visit.sequence([parts, *self._edges(steps, reduced)], self._span)

    def _edges(self, steps: dict[int, ir.Expr], reduced: int) -> list[S.Stmt]:
        """The elements outside of whole units."""
        mapping = self._src.placement.mapping
        found: list[S.Stmt] = []
        for edge in range(mapping.edge_steps):
            index = mapping.edge(self._scope.thread, int32(edge))
            at = {**steps, reduced: int32(self._steps(reduced))}
            inside = E.LT(index, int32(mapping.extents[0]))
            found.append(guarded([inside], self._own_element(at, int32(edge))))
        return found

    def _is_long(self, reduced: int, steps: dict[int, ir.Expr]) -> bool:
        """Whether a thread has so many elements, all of them inside, that one chain of operations would take long."""
        lanes = self._lanes(reduced)
        count = self._steps(reduced) * lanes
        fits = count % CHAINS == 0 and (CHAINS % lanes == 0 or lanes % CHAINS == 0)
        inside = self._inside({**steps, reduced: int32(0)}, int32(0), int32(0))
        return count >= 4 * CHAINS and fits and not inside

    def _side_by_side(self, reduced: int, steps: dict[int, ir.Expr]) -> S.Stmt:
        """Several partial results, whose operations do not wait for each other, and their combination.

        They begin with elements: an operation with the identity is one that a compiler may not leave out for floats.
        """
        lanes = self._lanes(reduced)
        stride = max(1, CHAINS // lanes)
        parts = tirx.decl_buffer((CHAINS,), self._dtype.tvm, "parts", scope=regions.LOCAL)

        def chain(at: int) -> ir.Expr:
            return tirx.BufferLoad(parts, [int32(at)])

        def element(step: ir.Expr, at: int) -> ir.Expr:
            steps[reduced] = step * stride + at // lanes
            return self._element(steps, int32(at % lanes))

        def update(step: ir.Expr, at: int) -> S.Stmt:
            value = self._combine(chain(at % CHAINS), element(step, at))
            return S.BufferStore(parts, value, [int32(at % CHAINS)], self._span)

        def opened(at: int) -> S.Stmt:
            if at >= CHAINS:
                return update(int32(0), at)
            return S.BufferStore(parts, element(int32(0), at), [int32(at)], self._span)

        step = tirx.Var("part", "int32")
        body = visit.sequence([update(step, at) for at in range(stride * lanes)], self._span)
        rounds = self._steps(reduced) // stride
        loop = S.For(step, int32(1), int32(rounds - 1), S.ForKind.UNROLLED, body, span=self._span)
        total = self._combine(self._combine(chain(0), chain(1)), self._combine(chain(2), chain(3)))
        return visit.sequence(
            [
                S.AllocBuffer(parts, span=self._span),
                *(opened(at) for at in range(stride * lanes)),
                loop,
                self._total.set(self._combine(self._total.get(), total), self._span),
            ],
            self._span,
        )

    def _own_lanes(self, steps: dict[int, ir.Expr], lanes: int) -> S.Stmt:
        """The lanes of one step, without guards where all are inside."""

        def over(*, guarded_lanes: bool) -> S.Stmt:
            at = tirx.Var("lane", "int32")
            guards = self._inside(steps, at, at) if guarded_lanes else []
            body = guarded(guards, self._own_element(steps, at))
            return S.For(at, int32(0), int32(lanes), S.ForKind.UNROLLED, body, span=self._span)

        conditions = self._inside(steps, int32(0), int32(lanes - 1))
        if not conditions or self._src.placement.mapping.head is not None:
            return guarded(conditions, over(guarded_lanes=False))
        fast, slow = over(guarded_lanes=False), over(guarded_lanes=True)
        return S.IfThenElse(conjunction(conditions), fast, slow, self._span)

    def _own_element(self, steps: dict[int, ir.Expr], lane: ir.Expr) -> S.Stmt:
        return self._total.set(self._combine(self._total.get(), self._element(steps, lane)), self._span)

    def _inside(self, steps: dict[int, ir.Expr], first: ir.Expr, last: ir.Expr) -> list[ir.Expr]:
        """Conditions under which the registers of lanes `first` to `last` hold elements of the tile."""
        placement, thread = self._src.placement, self._scope.thread
        own = [steps[number] for number in placement.classes]
        index = placement.mapping.indices(thread, own)
        return placement.mapping.guards(thread, own, index, first, last)

    def _element(self, steps: dict[int, ir.Expr], lane: ir.Expr) -> ir.Expr:
        register = self._scope.register(self._call.region("src").source, steps, lane)
        value = tirx.BufferLoad(self._src.array, [register])
        if self._kind.logical:
            return E.NE(value, number(0, self._src_dtype))
        value = cast(value, self._dtype)
        return tirx.abs(value) if self._kind.absolute else value

    def _combine(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        return self._kind.combine(a, b, self._nan)

    def _together(self, identity: ir.Expr) -> list[S.Stmt]:
        """Combine over the threads of the group."""
        if self._reduced is None or self._is_partial:
            return []
        combination = Combination(self._scope, self._total, self._dtype.tvm, self._combine, identity, self._span)
        found: list[S.Stmt] = []
        for count, stride in self._group.digits[self._reduced]:
            found += combination.over(ThreadGroup(count, stride, self._group.used))
        return found

    def _store(self, variables: dict[int, ir.Expr], lane: ir.Expr) -> S.Stmt:
        register = self._scope.register(self._call.region("dst").source, variables, lane)
        old = cast(tirx.BufferLoad(self._dst.array, [register]), self._dtype)
        clear = bool(self._call.attrs.get("clear", 1))
        value = self._total.get() if clear else self._combine(self._total.get(), old)
        store = S.BufferStore(self._dst.array, cast(value, self._dst_dtype), [register], self._span)
        return store if clear else guarded(self._is_held(variables, lane), store)

    def _is_held(self, variables: dict[int, ir.Expr], lane: ir.Expr) -> list[ir.Expr]:
        """Conditions under which the register of an output holds an element: others have no old value."""
        placement, thread = self._dst.placement, self._scope.thread
        own = [variables.get(number, int32(0)) for number in placement.classes]
        index = placement.mapping.indices(thread, own)
        return placement.mapping.guards(thread, own, index, lane, lane)
