"""The body of a nest for several lanes at once.

Memory moves in whole vectors between tensors or shared tiles and small per-thread arrays; arithmetic stays scalar code
over those arrays, unrolled lane by lane, which device compilers turn into registers. So every access is either a full
vector or untouched, whatever the body computes, and printers need to know nothing but vector copies.

A unit is whole when all of its lanes are inside of the nest and of every tensor: guards of `legalize_bounds` are linear
in the lane, so they hold for all lanes if they hold at one end, and are tested once a vector. Where they do not, the
caller's lane-by-lane form runs with its guards.

Loads stand apart from the work on what they bring, so that a caller can make those of several units before the first
value is needed: a thread then waits for memory once. Whether a tensor begins at an aligned address is known when the
kernel runs; the attribute `aligned_move` marks a move that is made at once where it does and element by element
where not. A load whose place among the vectors of its tensor is not known before the kernel runs comes out of the two
vectors that hold it, shifted: the attribute `shifted_move`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as ValuesByName
from dataclasses import dataclass
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.layouts.mapping import Mapping
from tile_core.passes.accesses import Access, aligned_width, lane_stride, offset, same_place, sharing, substitute, uses
from tile_core.passes.legalize_bounds import is_guard
from tile_core.passes.ranges import conjuncts
from tile_core.passes.thread_scope import ThreadScope, guarded, int32, made_once

MEMORY = (regions.GLOBAL, *regions.SHARED)
NameValues: TypeAlias = ValuesByName[ir.Var, ir.Expr]
"""Names that are bound around a body, and values that they stand for: none that was loaded."""
NO_NAMES: NameValues = MappingProxyType({})
ALIGNED_MOVE = "aligned_move"
"""Attribute around `if (aligned) <one vector move> else <a loop over its elements>`."""
SHIFTED_MOVE = "shifted_move"
"""Attribute around a loop over the elements of a vector that is loaded. Its value is how many elements after the start
of an aligned vector they begin, -1 where that vector and the next are not both of the tensor."""


@dataclass
class _Moved:
    """An access made for a whole unit: where it goes to or comes from, and its array of lanes.

    `chunk` elements move at once; the array of a load has room for `slots` units. `span`: the statement's.
    `is_shifted`: they come out of two vectors of as many. `shared_by`: so many neighbouring lanes read one element,
    which holds the values of all of them, or is one for a group.
    """

    access: Access
    name: str
    chunk: int
    array: ir.Var
    span: ir.Span | None
    is_shifted: bool = False
    shared_by: int = 1


class VectorUnit:
    """One unit of a nest as whole vectors: `conditions` must hold for it; `load_bytes` is what it reads, in registers.

    Make one with `vector_unit`.
    """

    def __init__(
        self,
        scope: ThreadScope,
        body: S.Stmt,
        last: ir.Var,
        mapping: Mapping,
        lane_body: Callable[[ir.Expr], S.Stmt],
        outer: NameValues = NO_NAMES,
        spare: Sequence[ir.Expr] = (),
    ) -> None:
        self._scope, self._body, self._last, self._lane_body = scope, body, last, lane_body
        self._width, self._head = mapping.vector, mapping.head
        self._analyzer = Analyzer()
        self._outer, self._spare = outer, list(spare)
        self._names = _Names(body, outer)
        self._loads: list[_Moved] = []
        self._stores: list[_Moved] = []
        self.conditions: list[ir.Expr] = []

    def analyse(self) -> bool:
        """Choose what moves as vectors; whether anything does."""
        statements = _straight_line(self._body)
        conditions = None if statements is None else self._conditions()
        if statements is None or conditions is None:
            return False
        self.conditions = conditions
        self._choose(statements)
        return any(moved.chunk > 1 for moved in (*self._loads, *self._stores))

    @property
    def load_bytes(self) -> int:
        """Bytes that a unit reads from tensors; 0 where it reads none."""
        return self._width * sum(
            moved.access.itemsize for moved in self._loads if regions.scope(moved.access.buffer) == regions.GLOBAL
        )

    def arrays(self, slots: int) -> list[S.Stmt]:
        """The arrays that `slots` units are read into."""
        for moved in self._loads:
            moved.array = self._array(moved, slots)
        return [S.AllocBuffer(moved.array) for moved in self._loads]

    def loads(self, slot: ir.Expr) -> S.Stmt:
        """The loads of the unit into its slot of the arrays."""
        return visit.sequence([copy for moved in self._loads for copy in self._copies(moved, slot)])

    def work(self, slot: ir.Expr) -> S.Stmt:
        """What the unit does with what is in its slot, and its stores."""
        arrays: list[S.Stmt] = []
        for moved in self._stores:
            moved.array = self._array(moved, 1)
            arrays.append(S.AllocBuffer(moved.array))
        lane = tirx.Var("lane", "int32")
        body = made_once(self._spare, _without_guards(self._through_arrays(self._lane_body(lane), lane, slot)))
        loop = S.For(lane, int32(0), int32(self._width), S.ForKind.UNROLLED, body)
        after = [guarded(self._spare, copy) for moved in self._stores for copy in self._copies(moved, int32(0))]
        return visit.sequence([*arrays, loop, *after])

    def _array(self, moved: _Moved, slots: int) -> ir.Var:
        return tirx.decl_buffer(
            (self._elements(moved) * slots,),
            str(moved.access.buffer.dtype),
            moved.name,
            scope=regions.LOCAL,
            data_alignment=moved.chunk * moved.access.itemsize,
        )

    def _elements(self, moved: _Moved) -> int:
        """Elements of a unit."""
        return self._width // moved.shared_by

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
        spans: dict[ir.Var, ir.Span | None] = {}
        for stmt in statements:
            if isinstance(stmt, S.BufferStore):
                access = self._names.access(stmt.buffer, stmt.indices, is_store=True)
                stored.setdefault(stmt.buffer, []).append(access)
                spans[stmt.buffer] = stmt.span
        for stmt in statements:
            for access in _unconditional_loads(stmt):
                load = self._names.access(access.buffer, access.indices, is_store=False)
                self._consider_load(load, stored, stmt.span)
        for buffer, found in stored.items():
            if len(found) == 1 and not self._reads_elsewhere(buffer, found[0], statements):
                self._consider(found[0], self._stores, "out", spans[buffer])
            elif not any(load.source.same_as(buffer) for load in visit.collect(self._body, ir.TensorLoad)):
                for access in found if self._are_apart(found) else ():
                    self._consider(access, self._stores, "out", spans[buffer])

    def _are_apart(self, stores: list[Access]) -> bool:
        """Whether several stores to a buffer are of different units, so that they may change their order."""
        places = [offset(access) for access in stores]
        apart = (constant(self._analyzer.simplify(b - a)) for a, b in combinations(places, 2))
        return all(distance is not None and abs(distance) >= self._width for distance in apart)

    def _consider_load(self, access: Access, stored: dict[ir.Var, list[Access]], span: ir.Span | None) -> None:
        if any(not same_place(access, store) for store in stored.get(access.buffer, [])):
            return
        if len(stored.get(access.buffer, [])) > 1:
            return
        if not any(
            same_place(access, seen.access) for seen in self._loads if seen.access.buffer.same_as(access.buffer)
        ):
            self._consider(access, self._loads, "in", span)

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

    def _consider(self, access: Access, chosen: list[_Moved], direction: str, span: ir.Span | None) -> None:
        buffer = self._scope.shared.get(access.buffer, access.buffer)
        scope = regions.scope(buffer)
        if scope not in MEMORY or access.itemsize * 8 != int(access.buffer.dtype.bits):
            return
        if self._names.hides(access):
            return
        if lane_stride(access, self._last, self._analyzer) != 1:
            if direction == "in" and (shared_by := self._sharing(access)) > 1:
                moved = Access(buffer, access.indices, access.is_store)
                chunk = self._shared_chunk(access, self._width // shared_by)
                chosen.append(
                    _Moved(moved, f"{access.buffer.name}_{direction}", chunk, buffer, span, shared_by=shared_by)
                )
            return
        if self._is_column(access):
            return
        widest = min(self._width, max(1, self._scope.vector_bytes // access.itemsize))
        chunk = self._aligned_width(access, widest)
        if chunk == 1 and (direction == "out" or scope != regions.GLOBAL):
            return
        moved = Access(buffer, access.indices, access.is_store)
        is_shifted = direction == "in" and chunk < widest and self._is_shiftable(moved, widest)
        chunk = widest if is_shifted else chunk
        chosen.append(_Moved(moved, f"{access.buffer.name}_{direction}", chunk, buffer, span, is_shifted))

    def _is_column(self, access: Access) -> bool:
        """Whether lanes move along an axis behind which others have one element: only a last index is a vector."""
        *outer, last = access.indices
        return not uses(last, (self._last,)) and any(uses(index, (self._last,)) for index in outer)

    def _is_shiftable(self, access: Access, widest: int) -> bool:
        """Whether a tensor lies in memory without gaps, and whole vectors of it are wanted."""
        fills = widest * access.itemsize == self._scope.vector_bytes
        return fills and regions.scope(access.buffer) == regions.GLOBAL and not access.buffer.strides

    def _sharing(self, access: Access) -> int:
        """How many neighbouring lanes of a unit read the same element, where the next ones read the next; else 1."""
        if self._head is not None or lane_stride(access, self._last, self._analyzer) == 0:
            return 1
        return sharing(access, self._last, self._width, self._analyzer)

    def _shared_chunk(self, access: Access, count: int) -> int:
        """How many of a unit's `count` elements that lanes share move at once."""
        unit = tirx.Var("unit", self._last.ty)
        start = self._analyzer.simplify(substitute(offset(access), {self._last: unit * self._width}))
        facts = self._analyzer.modular_set(start)
        chunk = min(count, max(1, self._scope.vector_bytes // access.itemsize))
        while chunk & (chunk - 1) or count % chunk or int(facts.coeff) % chunk or int(facts.base) % chunk:
            chunk -= 1
        return chunk

    def _aligned_width(self, access: Access, widest: int) -> int:
        """Where units begin behind a head, exactly the accesses whose misalignment it makes up for are aligned."""
        if self._head is None:
            return aligned_width(access, self._last, widest, self._analyzer)
        start = self._analyzer.simplify(substitute(offset(access), {self._last: int32(0)}))
        source = self._scope.plan.heads[self._head]
        return widest if tvm_ffi.structural_equal(start, source.start) else 1

    def _copies(self, moved: _Moved, slot: ir.Expr) -> list[S.Stmt]:
        """The moves of one access between memory and a slot of its array, chunk by chunk."""
        if moved.chunk == 1:
            lane = tirx.Var("lane", "int32")
            move = self._move(moved, slot, lane, 1)
            return [S.For(lane, int32(0), int32(self._elements(moved)), S.ForKind.UNROLLED, move)]
        return [self._chunk(moved, slot, start) for start in range(0, self._elements(moved), moved.chunk)]

    def _shifted(self, moved: _Moved, slot: ir.Expr, start: int) -> S.Stmt:
        """One vector out of two."""
        width = moved.chunk
        lane = tirx.Var("lane", "int32")
        single = self._move(moved, slot, lane + start if start else lane, 1)
        singly = S.For(lane, int32(0), int32(width), S.ForKind.UNROLLED, single, span=single.span)
        at = substitute(offset(moved.access), {self._last: self._last + start})
        shift = self._shift(at, width)
        inside = self._analyzer.simplify(at - shift + 2 * width <= prod(moved.access.buffer.shape))
        flag = self._scope.alignment_flag(moved.access.buffer)
        wanted = inside if flag is None else E.And(flag, inside)
        value = E.Select(wanted, shift.astype("int32"), int32(-1))
        return S.AttrStmt(int32(0), SHIFTED_MOVE, value, singly, single.span)

    def _shift(self, at: ir.Expr, width: int) -> ir.Expr:
        """How far element `at` of a tensor lies behind the start of a vector: one value for all units, if it can."""
        unit = tirx.Var("unit", self._last.ty)
        begin = unit * self._width
        if self._head is not None:
            source = self._scope.plan.heads[self._head]
            head = self._analyzer.simplify(tirx.floormod(int32(0) - source.start, int32(source.unit)))
            begin = begin + (head if isinstance(head, E.IntImm) else self._head)

        def behind(place: ir.Expr) -> ir.Expr:
            return self._analyzer.simplify(tirx.floormod(place, E.IntImm(place.ty, width)))

        common = behind(substitute(at, {self._last: begin}))
        return behind(at) if uses(common, (unit,)) else common

    def _chunk(self, moved: _Moved, slot: ir.Expr, start: int) -> S.Stmt:
        """One vector, under the flag that says whether its tensor is aligned."""
        if moved.is_shifted:
            return self._shifted(moved, slot, start)
        at_once = self._move(moved, slot, int32(start), moved.chunk)
        flag = self._scope.alignment_flag(moved.access.buffer)
        if flag is None:
            return at_once
        lane = tirx.Var("lane", "int32")
        single = self._move(moved, slot, lane + start if start else lane, 1)
        singly = S.For(lane, int32(0), int32(moved.chunk), S.ForKind.UNROLLED, single, span=single.span)
        span = at_once.span
        return S.AttrStmt(int32(0), ALIGNED_MOVE, int32(1), S.IfThenElse(flag, at_once, singly, span), span)

    def _move(self, moved: _Moved, slot: ir.Expr, lane: ir.Expr, count: int) -> S.Stmt:
        """`count` elements from lane `lane` on."""

        def several(index: ir.Expr) -> ir.Expr:
            return index if count == 1 else E.Ramp(index, E.IntImm(index.ty, 1), count)

        own = [several(self._analyzer.simplify(slot * self._elements(moved) + lane))]
        lane = lane if moved.shared_by == 1 else lane * moved.shared_by
        step = lane if str(lane.ty.dtype) == str(self._last.ty.dtype) else lane.astype(str(self._last.ty.dtype))
        place = [substitute(index, {self._last: self._last + step}) for index in moved.access.indices]
        moving = max(axis for axis, index in enumerate(place) if uses(index, (self._last,)))
        place[moving] = several(self._analyzer.simplify(place[moving]))
        if moved.access.is_store:
            return S.BufferStore(moved.access.buffer, tirx.BufferLoad(moved.array, own), place, moved.span)
        return S.BufferStore(moved.array, tirx.BufferLoad(moved.access.buffer, place), own, moved.span)

    def _through_arrays(self, body: S.Stmt, lane: ir.Var, slot: ir.Expr) -> S.Stmt:
        """One lane with its vector accesses replaced by the lane's element of the arrays."""
        names = _Names(body, self._outer)

        def find(moved: list[_Moved], buffer: ir.Var, indices: Any) -> _Moved | None:
            own = names.access(buffer, indices, is_store=False).indices
            for one in moved:
                if one.access.buffer.same_as(buffer) and self._is_lane_of(one.access, own, lane):
                    return one
            return None

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            moved = find(self._loads, node.source, node.indices)
            if moved is None:
                return mutator.default_mutate(node)
            own = lane if moved.shared_by == 1 else tirx.floordiv(lane, int32(moved.shared_by))
            own = int32(0) if moved.shared_by == self._width else own
            return tirx.BufferLoad(moved.array, [self._analyzer.simplify(slot * self._elements(moved) + own)])

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


def vector_unit(
    scope: ThreadScope,
    body: S.Stmt,
    last: ir.Var,
    mapping: Mapping,
    lane_body: Callable[[ir.Expr], S.Stmt],
    outer: NameValues = NO_NAMES,
    spare: Sequence[ir.Expr] = (),
) -> VectorUnit | None:
    """`body` for a unit from index `last`; `None` without vector access or where a part must stay per lane.

    `body` is the body at lane 0 before fragments are rewritten; `lane_body(lane)` is one lane after. `outer` are the
    values of names around it.
    """
    unit = VectorUnit(scope, body, last, mapping, lane_body, outer)
    return unit if unit.analyse() else None


class _Names:
    """The names that a body binds. Outside of the lanes' loop they do not exist, so what they stand for is used.

    A name for a value that was loaded stands for itself: loading it again could give another value.
    """

    def __init__(self, body: S.Stmt, outer: NameValues = NO_NAMES) -> None:
        self._values: dict[ir.Var, ir.Expr] = dict(outer)
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
