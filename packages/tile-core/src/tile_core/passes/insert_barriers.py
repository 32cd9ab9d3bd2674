"""Put a barrier between two pieces of parallel work where one touches memory that the other wrote.

A forward walk over the kernel body keeps what was read and written since the last barrier, by buffer, in shared and in
global memory (a block's threads see each other's global writes only behind a barrier). A piece that reads what was
written, or writes what was read or written, gets a barrier before it. A loop is walked twice, so that what the end of
an iteration left meets the beginning of the next; so does what `continue` leaves, whose way misses the barriers behind
it, and what `break` leaves meets what follows the loop. The condition of a `while` is read again by every iteration.

Work that lingers (products in flight) reads its tiles until it is waited for: a barrier before the wait orders nothing.
It ends in the order in which it began, so a wait tells how many of the last pieces may still read.

A branch or loop whose condition depends on the thread cannot hold a barrier. It is one piece of work; one that would
need a barrier inside is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.layouts import DivergentBarrierError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.alignment import IS_ALIGNED
from tile_core.ir.ops import tile_op
from tile_core.ir.spans import from_tvm
from tile_core.ir.thread_groups import ThreadGroup
from tile_core.ir.views import view_roots
from tile_core.ops.threads import (
    ATOMIC_UPDATES,
    BLOCK_WIDE,
    GRID_BARRIER,
    NAMED_BARRIERS,
    THREAD_PREFIX,
    WARP_WIDE,
    behind_addresses,
    called,
    exchanges,
)
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.nests import FOREIGN, NOTED, is_foreign
from tile_core.passes.plan_shared_memory import OFFSET, size_in_bytes
from tile_core.passes.thread_scope import LANDED, LINGERING, PHASE
from tile_core.passes.touched import CLEAN, Touched
from tile_core.passes.vector_units import ALIGNED_MOVE, SHIFTED_MOVE

MEMORY = (regions.GLOBAL, *regions.SHARED)
BARRIER = "tile.barrier"
UNORDERED = "tile.unordered"
"""Annotation of a loop whose iterations are blocks of the author's program: none awaits another's work on tensors."""
GROUP = "group"
"""Attribute of a barrier of some neighbours: how many."""
WIDER_BARRIERS = ("tile.thread.cluster_sync", GRID_BARRIER)
ADDRESS_ONLY = (IS_ALIGNED,)
ACCESS = "access"
"""Attribute of a call that says what it does behind the addresses it is given: `r`, `w`, or empty for nothing."""
PIECES = (PHASE, FOREIGN, ALIGNED_MOVE, SHIFTED_MOVE)
"""Attributes of work that holds no barrier: a move of vectors has two forms of one access."""
PER_THREAD = (regions.LOCAL, regions.VAR, regions.FRAGMENT, regions.REDUCER)


@dataclass(frozen=True)
class InsertBarriers:
    """Leaves the number of barriers in the report as `barriers`."""

    name: ClassVar[str] = "insert_barriers"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        count, roots = context.report.get("barriers", 0), view_roots(func.body)

        def place(loop: S.For, mutator: Any) -> S.Stmt:
            nonlocal count
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            placer = _Placer(_thread_dependent(launch), _overlapping(launch.body), roots)
            body, _state = placer.stmt(launch.body, CLEAN)
            count += placer.count
            return replace(launch, body=_without_phases(body)).to_stmt()

        body = visit.mutate(func.body, (S.For, place))
        context.report["barriers"] = count
        return func.with_body(body, func.span)


def barrier(span: Any = None) -> S.Stmt:
    """A barrier of all threads of the block."""
    return S.Evaluate(ir.Call(tile_op(BARRIER), [], ret_ty="void"), span)


def barrier_of_groups(tiles: Sequence[ir.Var], threads: int, span: Any = None) -> S.Stmt:
    """A barrier of every `threads` neighbours among themselves.

    It is for shared tiles of which each of these groups touches parts of its own.
    """
    zero = tirx.IntImm("int32", 0)
    places = [tirx.address_of(tirx.BufferLoad(tile, [zero] * len(tile.shape))) for tile in tiles]
    return S.Evaluate(ir.Call(tile_op(BARRIER), places, attrs={GROUP: threads}, ret_ty="void"), span)


def group_of_barrier(stmt: S.Stmt) -> int | None:
    """How many neighbours meet at a barrier; `None` for one of the whole block."""
    return int(stmt.value.attrs[GROUP]) if is_barrier(stmt) and stmt.value.args else None


@dataclass
class _Ways:
    """The ways out of an iteration of a loop besides its end: what is touched on them.

    `condition` is what is read before the next iteration, `repeated` what `continue` leaves, `left` what `break` does.
    """

    condition: Touched
    repeated: Touched = CLEAN
    left: Touched = CLEAN


class _Placer:
    """Rewrites statements, given what was touched before; returns the statement and what is touched after."""

    def __init__(
        self,
        divergent: frozenset[ir.Var],
        overlapping: Mapping[ir.Var, frozenset[ir.Var]],
        roots: Mapping[ir.Var, ir.Var],
    ) -> None:
        self._divergent = divergent
        self._overlapping = overlapping
        self._roots = roots
        self._groups: dict[ThreadGroup, int] = {}
        self._known: dict[S.Stmt, Touched] = {}
        self._ways: list[_Ways] = []
        self.count = 0

    def stmt(self, stmt: S.Stmt, before: Touched) -> tuple[S.Stmt, Touched]:
        if isinstance(stmt, S.SeqStmt):
            parts: list[S.Stmt] = []
            for part in stmt.seq:
                part, before = self.stmt(part, before)
                parts.append(part)
            return visit.sequence(parts, stmt.span), before
        if thread_groups.is_region(stmt):
            return self._region(stmt, before)
        if isinstance(stmt, S.AttrStmt) and stmt.attr_key not in PIECES:
            body, after = self.stmt(stmt.body, before)
            return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body, stmt.span), after
        if isinstance(stmt, S.For | S.While | S.IfThenElse) and self._is_uniform(stmt):
            return self._control(stmt, before)
        if isinstance(stmt, S.Break | S.Continue):
            return self._jump(stmt, before)
        return self._piece(stmt, before)

    def _region(self, stmt: S.AttrStmt, before: Touched) -> tuple[S.Stmt, Touched]:
        """A region of some threads. What other groups do beside it is ordered by barriers of the author's."""
        group = thread_groups.group_of(stmt)
        whole = self._spread(self._touched(stmt))
        prefix: list[S.Stmt] = []
        if Touched(before.reads, before.writes).conflicts(whole):
            prefix, before = [barrier(stmt.span)], before.passed()
            self.count += 1
        inner = _Placer(self._divergent, self._overlapping, self._roots)
        branch = stmt.body
        body, _after = inner.stmt(branch.then_case, before.beside.get(group, CLEAN))
        self.count += inner.count
        named = self._groups.setdefault(group, NAMED_BARRIERS - 1 - len(self._groups))
        body = visit.mutate(body, (S.Evaluate, lambda node, _mutator: _of_group(node, named, group)))
        region = thread_groups.region(group, S.IfThenElse(branch.condition, body, None, branch.span))
        return visit.sequence([*prefix, region], stmt.span), before | Touched(beside={group: self._touched(stmt)})

    def _piece(self, stmt: S.Stmt, before: Touched) -> tuple[S.Stmt, Touched]:
        if group_of_barrier(stmt) is not None:
            for tile in visit.collect(stmt, ir.TensorLoad):
                before = before.passed_by(tile.source)
            return stmt, before
        if is_barrier(stmt):
            return stmt, before.passed()
        pieces = _left_in_flight(stmt)
        if pieces is not None:
            before = before.landed(pieces)
        if is_foreign(stmt):
            return stmt, before | self._touched(stmt) if regions.constant(stmt.value) == NOTED else before
        touched = self._touched(stmt)
        if isinstance(stmt, S.Bind) and exchanges(stmt.value, BLOCK_WIDE):
            stmts = [barrier(stmt.span), stmt] if before.conflicts(touched) else [stmt]
            self.count += len(stmts) - 1
            return visit.sequence(stmts, stmt.span), before.passed()
        if isinstance(stmt, S.For | S.While | S.IfThenElse):
            self._check_divergent(stmt)
        prefix, before = self._ordered(before, touched, stmt.span)
        return visit.sequence([*prefix, stmt], stmt.span), before.then(touched)

    def _ordered(self, before: Touched, later: Touched, span: Any) -> tuple[list[S.Stmt], Touched]:
        """The barrier that `later` needs behind `before`, if any, and what is touched behind that."""
        if not before.conflicts(self._spread(later)):
            return [], before
        self.count += 1
        return [barrier(span)], before.passed()

    def _jump(self, stmt: S.Stmt, before: Touched) -> tuple[S.Stmt, Touched]:
        """The rest of the body is not run: what is touched here meets what follows the iteration, or the loop."""
        if not self._ways:
            return stmt, before
        ways = self._ways[-1]
        if isinstance(stmt, S.Break):
            ways.left |= before
            return stmt, before
        prefix, before = self._ordered(before, ways.condition, stmt.span)
        ways.repeated |= before
        return visit.sequence([*prefix, stmt], stmt.span), before

    def _control(self, stmt: Any, before: Touched) -> tuple[S.Stmt, Touched]:
        condition = self._by_root(_touched_by(*_heads(stmt)))
        prefix, before = self._ordered(before, condition, stmt.span)
        before |= condition
        if isinstance(stmt, S.IfThenElse):
            then, after = self.stmt(stmt.then_case, before)
            otherwise, other = (None, before) if stmt.else_case is None else self.stmt(stmt.else_case, before)
            return visit.sequence([*prefix, S.IfThenElse(stmt.condition, then, otherwise, stmt.span)]), after | other
        body, after, count = self._iterated(stmt, before, condition)
        if count and before.conflicts(self._touched(stmt)):
            passed = before.passed() | condition
            clean, clean_after, fewer = self._iterated(stmt, passed, condition)
            if fewer < count:
                # One barrier before the loop is cheaper than one in each of its iterations.
                prefix.append(barrier(stmt.span))
                body, after, count, before = clean, clean_after, fewer + 1, passed
        self.count += count
        looped = (
            S.While(stmt.condition, body, stmt.span) if isinstance(stmt, S.While) else rebuild.loop(stmt, body=body)
        )
        return visit.sequence([*prefix, looped], stmt.span), before | after

    def _iterated(self, loop: Any, before: Touched, condition: Touched) -> tuple[S.Stmt, Touched, int]:
        """A loop's body, what is touched after it, and its barriers: what an iteration leaves meets the next one."""
        counted = self.count
        _first, end, _left = self._body(loop, before, condition)
        self.count = counted
        if isinstance(loop, S.For) and UNORDERED in loop.annotations:
            end = end.within_a_block()
        body, after, left = self._body(loop, before | end | condition, condition)
        count, self.count = self.count - counted, counted
        return body, after | left, count

    def _body(self, loop: Any, before: Touched, condition: Touched) -> tuple[S.Stmt, Touched, Touched]:
        """A loop's body, what is touched before the next iteration, and where the loop is left from within."""
        ways = _Ways(condition if isinstance(loop, S.While) else CLEAN)
        self._ways.append(ways)
        body, end = self.stmt(loop.body, before)
        self._ways.pop()
        suffix, end = self._ordered(end, ways.condition, loop.span)
        return visit.sequence([body, *suffix], loop.body.span), end | ways.repeated, ways.left

    def _touched(self, stmt: S.Stmt) -> Touched:
        """What a statement touches; loops ask for the same one several times."""
        if stmt not in self._known:
            self._known[stmt] = self._found(stmt)
        return self._known[stmt]

    def _found(self, stmt: S.Stmt) -> Touched:
        touched = self._by_root(_touched(stmt))
        lingers = isinstance(stmt, S.AttrStmt) and stmt.attr_key == PHASE and regions.constant(stmt.value) == LINGERING
        return replace(touched, lingering=(touched.reads,)) if lingers else touched

    def _spread(self, touched: Touched) -> Touched:
        """With the tiles that share the bytes of those touched."""
        reads, writes = (
            found.union(*(self._overlapping.get(buffer, frozenset()) for buffer in found))
            for found in (touched.reads, touched.writes)
        )
        return Touched(reads, writes, touched.beside)

    def _by_root(self, touched: Touched) -> Touched:
        """Views stand for the buffer whose memory they are."""
        reads, writes = (
            frozenset(self._roots.get(var, var) for var in found) for found in (touched.reads, touched.writes)
        )
        return Touched(reads, writes)

    def _is_uniform(self, stmt: Any) -> bool:
        return not any(var in self._divergent for head in _heads(stmt) for var in visit.collect(head, ir.Var))

    def _check_divergent(self, stmt: Any) -> None:
        """A piece of work under a thread's own condition must need no barrier inside."""
        inner = _Placer(frozenset(), self._overlapping, self._roots)
        inner.stmt(stmt.then_case if isinstance(stmt, S.IfThenElse) else stmt.body, CLEAN)
        phases = [attr for attr in visit.collect(stmt, S.AttrStmt) if attr.attr_key == PHASE]
        if inner.count and phases:
            tiles = sorted({str(var.name) for var in visit.collect(stmt, ir.Var) if _is_shared(var)})
            raise DivergentBarrierError(
                f"a barrier is needed for {', '.join(tiles)} in a branch that not every thread of the block takes",
                remedy="move the shared-memory work out of the branch, or make its condition the same for all threads",
                span=from_tvm(stmt.span or phases[0].span),
            )


def _left_in_flight(stmt: S.Stmt) -> int | None:
    """How many pieces of work may be in flight after a statement that waits for the others; `None` for any other."""
    if not isinstance(stmt, S.Evaluate) and not is_foreign(stmt):
        return None
    waits = [call for call in visit.collect(stmt, ir.Call) if call.attrs is not None and LANDED in call.attrs]
    return min((int(call.attrs[LANDED]) for call in waits), default=None)


def _is_shared(var: ir.Var) -> bool:
    return tirx.is_buffer_var(var) and regions.scope(var) in regions.SHARED


def _overlapping(body: S.Stmt) -> dict[ir.Var, frozenset[ir.Var]]:
    """For each shared tile, the others whose bytes `plan_shared_memory` put in the same place."""
    spans = {}
    for alloc in visit.collect(body, S.AllocBuffer):
        if OFFSET in alloc.annotations:
            start = int(alloc.annotations[OFFSET])
            spans[alloc.buffer] = (start, start + size_in_bytes(alloc.buffer))
    return {
        buffer: frozenset(
            other
            for other, (first, last) in spans.items()
            if not other.same_as(buffer) and first < span[1] and span[0] < last
        )
        for buffer, span in spans.items()
    }


def _heads(stmt: Any) -> list[ir.Expr]:
    if isinstance(stmt, S.For):
        return [stmt.min, stmt.extent]
    return [stmt.condition]


def _touched(stmt: S.Stmt) -> Touched:
    if isinstance(stmt, S.Bind) and _asks_only_for_an_address(stmt.value):
        return CLEAN
    reads = {load.source for load in visit.collect(stmt, ir.TensorLoad) if regions.scope(load.source) in MEMORY}
    writes = {store.buffer for store in visit.collect(stmt, S.BufferStore) if regions.scope(store.buffer) in MEMORY}
    for call in visit.collect(stmt, ir.Call):
        access = _behind_addresses(call)
        addressed = {
            load.source
            for address in (call.args if access else ())
            if isinstance(address, ir.Call)
            and isinstance(address.op, ir.Op)
            and str(address.op.name) == "tirx.address_of"
            for load in visit.collect(address, ir.TensorLoad)
            if regions.scope(load.source) in MEMORY
        }
        reads |= addressed if "r" in access else set()
        writes |= addressed if "w" in access else set()
    return Touched(frozenset(reads), frozenset(writes))


def _behind_addresses(call: ir.Call) -> str:
    """What a call does to the memory whose addresses it is given: both, unless it says otherwise."""
    if not isinstance(call.op, ir.Op) or str(call.op.name) in ADDRESS_ONLY:
        return ""
    return str(call.attrs[ACCESS]) if call.attrs is not None and ACCESS in call.attrs else "rw"


def _asks_only_for_an_address(value: ir.Expr) -> bool:
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and str(value.op.name) in ADDRESS_ONLY


def _touched_by(*exprs: ir.Expr) -> Touched:
    loads = (load.source for expr in exprs for load in visit.collect(expr, ir.TensorLoad))
    return Touched(reads=frozenset(source for source in loads if regions.scope(source) in MEMORY))


def is_barrier(stmt: S.Stmt) -> bool:
    """Whether a statement is a barrier of all threads of the block."""
    call = stmt.value if isinstance(stmt, S.Evaluate) else None
    return called(call) in (BARRIER, *WIDER_BARRIERS)


def _thread_dependent(launch: launch_ir.Launch) -> frozenset[ir.Var]:
    """Variables whose value may differ between the threads of a block: a fixed point over binds and private stores."""
    found = set(launch.thread_vars)
    # Of a region, the branch that all of its threads take.
    entered = [region.body for region in thread_groups.regions_in(launch.body)]
    while True:
        before = len(found)
        for stmt in visit.statements(launch.body):
            if any(stmt.same_as(branch) for branch in entered):
                continue
            if isinstance(stmt, S.AttrStmt) and stmt.attr_key == PHASE:
                found |= {
                    store.buffer
                    for store in visit.collect(stmt, S.BufferStore)
                    if regions.scope(store.buffer) in PER_THREAD
                }
            elif isinstance(stmt, S.Bind):
                if stmt.var not in found and _depends(stmt.value, found):
                    found.add(stmt.var)
            elif isinstance(stmt, S.Evaluate):
                found |= {buffer for buffer in behind_addresses(stmt) if regions.scope(buffer) in PER_THREAD}
            elif (
                isinstance(stmt, S.BufferStore)
                and stmt.buffer not in found
                and regions.scope(stmt.buffer) in PER_THREAD
            ):
                if _depends(stmt.value, found) or any(_depends(index, found) for index in stmt.indices):
                    found.add(stmt.buffer)
            elif isinstance(stmt, S.For | S.IfThenElse | S.While) and any(
                _depends(head, found) for head in _heads(stmt)
            ):
                found |= {
                    store.buffer
                    for store in visit.collect(stmt, S.BufferStore)
                    if regions.scope(store.buffer) in PER_THREAD
                }
        if len(found) == before:
            return frozenset(found)


def _depends(expr: ir.Expr, found: set[ir.Var]) -> bool:
    """Whether a value may differ between threads; what an exchange of the whole block gives does not."""
    variables: list[ir.Var] = []
    names: set[str] = set()
    visit.walk(expr, (ir.Var, variables.append), (ir.Call, lambda call: names.add(called(call))))
    if names & BLOCK_WIDE:
        return False
    return any(var in found for var in variables) or bool(names & (WARP_WIDE | ATOMIC_UPDATES))


def _of_group(node: S.Evaluate, number: int, group: ThreadGroup) -> S.Stmt:
    """The block's barrier, in a region, as one of the region's threads."""
    if not is_barrier(node):
        return node
    attrs = {"barrier_id": number, "arrive_count": group.count}
    return S.Evaluate(ir.Call(tile_op(f"{THREAD_PREFIX}named_barrier"), [], attrs=attrs, ret_ty="void"), node.span)


def _without_phases(stmt: S.Stmt) -> S.Stmt:
    def attribute(node: S.AttrStmt, mutator: Any) -> S.Stmt:
        done = node.attr_key == PHASE or thread_groups.is_region(node)
        return mutator.mutate(node.body) if done else mutator.default_mutate(node)

    return visit.mutate(stmt, (S.AttrStmt, attribute))
