"""The body of a nest for several lanes at once.

Memory moves in whole vectors between tensors or shared tiles and small per-thread arrays; arithmetic stays scalar code
over those arrays, unrolled lane by lane, which device compilers turn into registers. So every access is either a full
vector or untouched, whatever the body computes, and printers need to know nothing but vector copies.

A unit is whole when all of its lanes are inside of the nest and of every tensor: guards of `legalize_bounds` are linear
in the lane, so they hold for all lanes if they hold at one end, and are tested once a vector. Where they do not, the
caller's lane-by-lane form runs with its guards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.layouts.mapping import Mapping
from tile_core.passes.accesses import Access, aligned_width, lane_stride, offset, same_place, substitute, uses
from tile_core.passes.legalize_bounds import is_guard
from tile_core.passes.ranges import conjuncts
from tile_core.passes.thread_scope import ThreadScope, int32

MEMORY = (regions.GLOBAL, *regions.SHARED)


@dataclass(frozen=True)
class Whole:
    """The form for whole units and the conditions under which it may run."""

    stmt: S.Stmt
    conditions: list[ir.Expr]


@dataclass
class _Moved:
    """A vector access: where it goes to or comes from, and its array of lanes."""

    access: Access
    array: ir.Var
    chunk: int


def vector_unit(
    scope: ThreadScope, body: S.Stmt, last: ir.Var, mapping: Mapping, lane_body: Callable[[ir.Expr], S.Stmt]
) -> Whole | None:
    """`body` for a unit from index `last`; `None` without vector access or where a part must stay per lane.

    `body` is the body at lane 0 before fragments are rewritten; `lane_body(lane)` is one lane after.
    """
    return _Unit(scope, body, last, mapping, lane_body).result()


class _Unit:
    def __init__(
        self,
        scope: ThreadScope,
        body: S.Stmt,
        last: ir.Var,
        mapping: Mapping,
        lane_body: Callable[[ir.Expr], S.Stmt],
    ) -> None:
        self._scope, self._body, self._last, self._lane_body = scope, body, last, lane_body
        self._width, self._shift = mapping.vector, mapping.shift
        self._analyzer = Analyzer()
        self._names = _Names(body)
        self._loads: list[_Moved] = []
        self._stores: list[_Moved] = []

    def result(self) -> Whole | None:
        statements = _straight_line(self._body)
        if statements is None:
            return None
        conditions = self._conditions()
        if conditions is None:
            return None
        self._choose(statements)
        if not self._loads and not self._stores:
            return None
        flags = {self._scope.alignment_flag(moved.access.buffer): None for moved in (*self._loads, *self._stores)}
        return Whole(self._emit(), [*(flag for flag in flags if flag is not None), *conditions])

    def _conditions(self) -> list[ir.Expr] | None:
        """The guards of the body at the lane where each fails first, each once."""
        found: list[ir.Expr] = []
        for call in visit.collect(self._body, ir.Call):
            if is_guard(call):
                for condition in map(self._names.resolve, conjuncts(call.args[0])):
                    if condition is None or not self._is_linear(condition):
                        return None
                    end = self._hardest_lane(condition)
                    if not _holds(end, found):
                        found.append(end)
        return [self._analyzer.simplify(condition) for condition in self._tightest(found)]

    def _tightest(self, found: list[ir.Expr]) -> list[ir.Expr]:
        """Without the conditions that another one implies."""
        kept: list[ir.Expr] = []
        for position, condition in enumerate(found):
            others = [*kept, *found[position + 1 :]]
            if not any(self._implies(other, condition) for other in others):
                kept.append(condition)
        return kept

    def _implies(self, fact: ir.Expr, condition: ir.Expr) -> bool:
        with self._analyzer.constraint_scope(fact):
            return bool(self._analyzer.can_prove(condition))

    def _is_linear(self, condition: ir.Expr) -> bool:
        """Whether the condition is decided at one end of the lanes."""
        if not uses(condition, (self._last,)):
            return not visit.collect(condition, ir.TensorLoad)
        return self._slope(condition) is not None

    def _slope(self, condition: ir.Expr) -> int | None:
        """By how much the left side of a comparison gains on the right one from lane to lane."""
        if not isinstance(condition, E.LT | E.LE | E.GT | E.GE):
            return None
        difference = condition.a - condition.b
        step = substitute(difference, {self._last: self._last + 1}) - difference
        return constant(self._analyzer.simplify(step))

    def _hardest_lane(self, condition: ir.Expr) -> ir.Expr:
        """The condition at the lane where it fails first."""
        if not uses(condition, (self._last,)):
            return condition
        slope = self._slope(condition)
        assert slope is not None
        falls = slope > 0 if isinstance(condition, E.LT | E.LE) else slope < 0
        return substitute(condition, {self._last: self._last + (self._width - 1)}) if falls else condition

    def _choose(self, statements: list[S.Stmt]) -> None:
        """Pick accesses that move as vectors: unconditional, whole, aligned, not mixed with others of the buffer."""
        stored: dict[ir.Var, list[Access]] = {}
        for stmt in statements:
            if isinstance(stmt, S.BufferStore):
                access = self._names.access(stmt.buffer, stmt.indices, is_store=True)
                stored.setdefault(stmt.buffer, []).append(access)
        for stmt in statements:
            for access in _unconditional_loads(stmt):
                self._consider_load(self._names.access(access.buffer, access.indices, is_store=False), stored)
        for buffer, found in stored.items():
            if len(found) == 1 and not self._reads_elsewhere(buffer, found[0], statements):
                self._consider(found[0], self._stores, "out")

    def _consider_load(self, access: Access, stored: dict[ir.Var, list[Access]]) -> None:
        if any(not same_place(access, store) for store in stored.get(access.buffer, [])):
            return
        if len(stored.get(access.buffer, [])) > 1:
            return
        if not any(
            same_place(access, seen.access) for seen in self._loads if seen.access.buffer.same_as(access.buffer)
        ):
            self._consider(access, self._loads, "in")

    def _reads_elsewhere(self, buffer: ir.Var, store: Access, statements: list[S.Stmt]) -> bool:
        """Whether the body reads the stored buffer in a way that a store at the end would change."""
        after = False
        for stmt in statements:
            reads = [load for load in visit.collect(stmt, ir.TensorLoad) if load.source.same_as(buffer)]
            places = [self._names.access(buffer, load.indices, is_store=False) for load in reads]
            if any(after or not same_place(place, store) for place in places):
                return True
            after = after or (isinstance(stmt, S.BufferStore) and stmt.buffer.same_as(buffer))
        return False

    def _consider(self, access: Access, chosen: list[_Moved], direction: str) -> None:
        buffer = self._scope.shared.get(access.buffer, access.buffer)
        if regions.scope(buffer) not in MEMORY or access.itemsize * 8 != int(access.buffer.dtype.bits):
            return
        if self._names.hides(access) or lane_stride(access, self._last, self._analyzer) != 1:
            return
        widest = min(self._width, max(1, self._scope.vector_bytes // access.itemsize))
        chunk = self._aligned_width(access, widest)
        if chunk == 1:
            return
        name = f"{access.buffer.name}_{direction}"
        array = tirx.decl_buffer(
            (self._width,), str(buffer.dtype), name, scope=regions.LOCAL, data_alignment=chunk * access.itemsize
        )
        chosen.append(_Moved(Access(buffer, access.indices, access.is_store), array, chunk))

    def _aligned_width(self, access: Access, widest: int) -> int:
        """Where units are shifted, exactly the accesses whose misalignment is the shift are aligned."""
        if self._shift is None:
            return aligned_width(access, self._last, widest, self._analyzer)
        start = self._analyzer.simplify(substitute(offset(access), {self._last: int32(0)}))
        source = self._scope.plan.shifts[self._shift]
        return widest if tvm_ffi.structural_equal(start, source.start) else 1

    def _emit(self) -> S.Stmt:
        before: list[S.Stmt] = []
        for moved in self._loads:
            before += [S.AllocBuffer(moved.array), *self._copies(moved)]
        for moved in self._stores:
            before.append(S.AllocBuffer(moved.array))
        lane = tirx.Var("lane", "int32")
        body = _without_guards(self._through_arrays(self._lane_body(lane), lane))
        loop = S.For(lane, int32(0), int32(self._width), S.ForKind.UNROLLED, body)
        after = [copy for moved in self._stores for copy in self._copies(moved)]
        return visit.sequence([*before, loop, *after])

    def _copies(self, moved: _Moved) -> list[S.Stmt]:
        """The vector moves of one access, chunk by chunk."""
        found: list[S.Stmt] = []
        for start in range(0, self._width, moved.chunk):
            own = [E.Ramp(int32(start), int32(1), moved.chunk)]
            place: list[Any] = [substitute(index, {self._last: self._last + start}) for index in moved.access.indices]
            moving = max(axis for axis, index in enumerate(place) if uses(index, (self._last,)))
            one = E.IntImm(place[moving].ty, 1)
            place[moving] = E.Ramp(self._analyzer.simplify(place[moving]), one, moved.chunk)
            if moved.access.is_store:
                found.append(S.BufferStore(moved.access.buffer, tirx.BufferLoad(moved.array, own), place))
            else:
                found.append(S.BufferStore(moved.array, tirx.BufferLoad(moved.access.buffer, place), own))
        return found

    def _through_arrays(self, body: S.Stmt, lane: ir.Var) -> S.Stmt:
        """One lane with its vector accesses replaced by the lane's element of the arrays."""
        names = _Names(body)

        def find(moved: list[_Moved], buffer: ir.Var, indices: Any) -> _Moved | None:
            own = names.access(buffer, indices, is_store=False).indices
            for one in moved:
                if one.access.buffer.same_as(buffer) and self._is_lane_of(one.access, own, lane):
                    return one
            return None

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            moved = find(self._loads, node.source, node.indices)
            return mutator.default_mutate(node) if moved is None else tirx.BufferLoad(moved.array, [lane])

        def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
            value, moved = mutator.mutate(node.value), find(self._stores, node.buffer, node.indices)
            if moved is not None:
                return S.BufferStore(moved.array, value, [lane], node.span)
            indices = [mutator.mutate(index) for index in node.indices]
            return S.BufferStore(node.buffer, value, indices, node.span)

        return visit.mutate(body, (S.BufferStore, store), (ir.TensorLoad, load))

    def _is_lane_of(self, access: Access, indices: Any, lane: ir.Var) -> bool:
        return all(
            tvm_ffi.structural_equal(
                self._analyzer.simplify(substitute(own, {self._last: self._last + lane})),
                self._analyzer.simplify(index),
            )
            for own, index in zip(access.indices, indices, strict=True)
        )


class _Names:
    """The names that a body binds. Outside of the lanes' loop they do not exist, so what they stand for is used.

    A name for a value that was loaded stands for itself: loading it again could give another value.
    """

    def __init__(self, body: S.Stmt) -> None:
        self._values: dict[ir.Var, ir.Expr] = {}
        self._loaded: list[ir.Var] = []
        for bind in visit.collect(body, S.Bind):
            value = substitute(bind.value, self._values)
            if visit.collect(value, ir.TensorLoad) or uses(value, self._loaded):
                self._loaded.append(bind.var)
            else:
                self._values[bind.var] = value

    def resolve(self, expr: ir.Expr) -> ir.Expr | None:
        """`expr` without names of the body, `None` where it depends on a loaded value."""
        found = substitute(expr, self._values)
        return None if uses(found, self._loaded) else found

    def access(self, buffer: ir.Var, indices: Any, *, is_store: bool) -> Access:
        """An access whose indices are free of the names that have values."""
        return Access(buffer, tuple(substitute(index, self._values) for index in indices), is_store)

    def hides(self, access: Access) -> bool:
        """Whether an index depends on a loaded value."""
        return any(uses(index, self._loaded) for index in access.indices)


def _holds(condition: ir.Expr, found: list[ir.Expr]) -> bool:
    return any(tvm_ffi.structural_equal(condition, seen) for seen in found)


def _straight_line(body: S.Stmt) -> list[S.Stmt] | None:
    """The statements of a body without control flow; guards are looked through. `None` for any other body."""
    if isinstance(body, S.SeqStmt):
        parts = [_straight_line(part) for part in body.seq]
        return None if any(part is None for part in parts) else [stmt for part in parts for stmt in part or []]
    if isinstance(body, S.IfThenElse) and is_guard(body.condition) and body.else_case is None:
        return _straight_line(body.then_case)
    return [body] if isinstance(body, S.BufferStore | S.Bind | S.AllocBuffer) else None


def _unconditional_loads(stmt: S.Stmt) -> list[Access]:
    """Loads that every lane makes: not those in a side of a conditional, unless its condition is a guard."""
    found: list[Access] = []

    def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
        found.append(Access(node.source, tuple(node.indices), False))
        return mutator.default_mutate(node)

    def call(node: ir.Call, mutator: Any) -> ir.Expr:
        if isinstance(node.op, ir.Op) and str(node.op.name) == "prim.if_then_else":
            mutator.mutate(node.args[0])
            if is_guard(node.args[0]):
                mutator.mutate(node.args[1])
            return node
        return mutator.default_mutate(node)

    value = stmt.value if isinstance(stmt, S.BufferStore | S.Bind) else None
    if value is not None:
        visit.mutate(value, (ir.Call, call), (ir.TensorLoad, load))
    return found


def _without_guards(stmt: S.Stmt) -> S.Stmt:
    """The statement where every guard holds."""

    def call(node: ir.Call, mutator: Any) -> ir.Expr:
        if isinstance(node.op, ir.Op) and str(node.op.name) == "prim.if_then_else" and is_guard(node.args[0]):
            return mutator.mutate(node.args[1])
        return mutator.default_mutate(node)

    def branch(node: S.IfThenElse, mutator: Any) -> S.Stmt:
        if is_guard(node.condition) and node.else_case is None:
            return mutator.mutate(node.then_case)
        return mutator.default_mutate(node)

    return visit.mutate(stmt, (S.IfThenElse, branch), (ir.Call, call))
