"""Give every iteration of every parallel nest to a thread, as `infer_layouts` decided.

What stands outside of nests is executed by every thread. A block whose program never tells its threads apart is one
program, so there one thread makes what others would see twice: stores to shared and global memory, atomic updates,
printed lines. Such a program means the same whether its block runs as threads or as one sequential program.

Each piece of parallel work is wrapped in the attribute `tile.phase`, inside which no barrier is needed;
`insert_barriers` works on the pieces and removes the attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.spans import from_tvm
from tile_core.ops.print import is_printed_once
from tile_core.ops.threads import ATOMIC_UPDATES, exchanges, is_for_every_thread, tells_threads_apart
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute, uses
from tile_core.passes.base import PassContext
from tile_core.passes.deferred_sums import DeferredSum, begin, deferred_sums, end, threads_of_a_row
from tile_core.passes.hoist_guards import with_hoisted_guard
from tile_core.passes.insert_barriers import is_barrier
from tile_core.passes.layout_plan import Plan
from tile_core.passes.matrix import MatrixUnits, Multiplier, is_hold, is_matrix, is_settle, is_store, matrix_call
from tile_core.passes.nests import (
    direct_reduction,
    direct_scan,
    is_foreign,
    is_parallel,
    is_reduction,
    is_scan,
    marked_call,
    parallel_nest,
)
from tile_core.passes.plan_shared_memory import ALIGNMENT, OWN_PLACE, asynchronous, size_in_bytes
from tile_core.passes.roll_loops import REGISTER_BYTES, REGISTERS
from tile_core.passes.swizzle_tiles import TILES
from tile_core.passes.thread_nests import emit_nest, emit_vectorized
from tile_core.passes.thread_products import cleared
from tile_core.passes.thread_reducers import reducer_statement
from tile_core.passes.thread_reductions import emit_reduction
from tile_core.passes.thread_scans import emit_scan
from tile_core.passes.thread_scope import ALIGNED, BATCH_BYTES, ThreadScope, int32, phase

FREE_FOR_A_BYTE = 8
"""Bytes of free registers for each that is read ahead: for addresses too, and for all that is not copied."""


@dataclass(frozen=True)
class PartitionLoops:
    """See the module."""

    name: ClassVar[str] = "partition_loops"
    units: MatrixUnits | None = None

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        plan: Plan = context.state["infer_layouts"]

        def partition(loop: S.For, mutator: object) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)  # type: ignore[attr-defined]
            return _partition(launch_ir.from_stmt(loop), plan, context, self.units).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, partition)), func.span)


def _partition(
    launch: launch_ir.Launch, plan: Plan, context: PassContext, units: MatrixUnits | None
) -> launch_ir.Launch:
    x, y, z = launch.thread_vars
    nx, ny, _nz = launch.threads
    single = launch.threads[1:] == (1, 1)
    thread: ir.Expr = x if single else tirx.Var("thread", "int32")
    scope = ThreadScope(
        plan=plan,
        thread=thread,
        block=prod(launch.threads),
        warp=context.capabilities.warp_size,
        vector_bytes=context.capabilities.vector_bytes,
        thread_vars=launch.thread_vars,
        tiles=context.state.setdefault(TILES, {}),
        asynchronous=frozenset(asynchronous(launch.body)),
        known_aligned=frozenset(
            attr.node for attr in visit.collect(launch.body, S.AttrStmt) if attr.attr_key == ALIGNED
        ),
        room=_room(launch, plan, context),
    )
    multiplier = Multiplier(units, scope.block, context.capabilities, frozenset(plan.named))
    elsewhere = frozenset(plan.elsewhere)
    marked = [stmt for stmt in visit.collect(launch.body, S.AttrStmt) if is_matrix(stmt)]
    scope.waits_for_all = any(multiplier.product(stmt, elsewhere) is None for stmt in marked)
    own = replace(launch, body=visit.mutate(launch.body, (S.AttrStmt, _without_foreign)))
    is_one_program = not tells_threads_apart(own)
    sums = deferred_sums(launch.body) if is_one_program else []
    body = _Block(scope, multiplier, is_one_program=is_one_program, sums=sums).stmt(launch.body)
    told = context.report.setdefault("products", [])
    told += [product for product in scope.products if product not in told]
    head: list[S.Stmt] = [] if single else [S.Bind(thread, (z * ny + y) * nx + x)]
    head += [
        S.Bind(head, Analyzer().simplify(tirx.floormod(int32(0) - source.start, int32(source.unit))))
        for head, source in plan.heads.items()
        if uses(body, (head,))
    ]
    views = {declared.buffer for declared in visit.collect(body, S.DeclBuffer)}
    head += scope.alignment_binds(set(scope.aligned) - views)
    head += [S.AllocBuffer(buffer, _own_place(buffer)) for buffer in scope.workspaces]
    body = visit.mutate(body, (S.SeqStmt, lambda seq, mutator: _with_flags(scope, mutator.default_mutate(seq))))
    return replace(launch, body=visit.sequence([*head, body]))


def _room(launch: launch_ir.Launch, plan: Plan, context: PassContext) -> int:
    """Bytes of registers that a thread of a launch may read ahead.

    Less than usual only in a launch that stands in for another one: it copies by its threads what the other one leaves
    to the copy engine, so its tiles were chosen for threads that hold fragments and nothing else.
    """
    registers = REGISTER_BYTES * int(context.capabilities.fact(REGISTERS, 0))
    tiles = [alloc.buffer for alloc in visit.collect(launch.body, S.AllocBuffer)]
    placed = [(tile, plan.fragments[tile].mapping) for tile in tiles if tile in plan.fragments]
    held = sum(mapping.registers * max(1, int(tile.dtype.bits) // 8) for tile, mapping in placed)
    if not launch.is_spare or 2 * held < registers:
        return BATCH_BYTES
    return max(0, registers - held) // FREE_FOR_A_BYTE


def _without_foreign(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
    return visit.sequence([], stmt.span) if is_foreign(stmt) else mutator.default_mutate(stmt)


def _own_place(workspace: ir.Var) -> dict[str, int]:
    """A small workspace shares its bytes with no other: a barrier between two users would cost more."""
    return {OWN_PLACE: 1} if size_in_bytes(workspace) <= ALIGNMENT else {}


def _with_flags(scope: ThreadScope, seq: S.Stmt) -> S.Stmt:
    """The statements with the alignment of each view, and the zeros of ragged arrays, behind their declarations."""
    stmts: list[S.Stmt] = []
    for stmt in seq.seq if isinstance(seq, S.SeqStmt) else [seq]:
        stmts.append(stmt)
        if isinstance(stmt, S.DeclBuffer):
            stmts += scope.alignment_binds({stmt.buffer})
        elif isinstance(stmt, S.AllocBuffer) and stmt.buffer in scope.ragged:
            stmts.append(cleared(stmt.buffer))
    return visit.sequence(stmts, seq.span)


class _Block:
    """Statements at block level: all threads pass here."""

    def __init__(
        self, scope: ThreadScope, multiplier: Multiplier, *, is_one_program: bool, sums: Sequence[DeferredSum] = ()
    ) -> None:
        self._scope = scope
        self._multiplier = multiplier
        self._is_one_program = is_one_program
        self._sums = sums
        self._partial: list[S.Stmt] = []
        self._names: dict[ir.Var, ir.Expr] = {}

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.SeqStmt):
            return visit.sequence([self.stmt(part) for part in stmt.seq], stmt.span)
        if is_parallel(stmt):
            return self._nest(stmt)
        if is_reduction(stmt):
            return self._reduction(stmt)
        if is_scan(stmt):
            return self._scan(stmt)
        if is_foreign(stmt):
            return stmt
        if (instructions := self._instructions(stmt)) is not None:
            return instructions
        if isinstance(stmt, S.AllocBuffer):
            return self._scope.allocate(stmt)
        if isinstance(stmt, S.DeclBuffer):
            return self._scope.declare_view(stmt)
        if (reducer := reducer_statement(self._scope, stmt)) is not None:
            return reducer
        if isinstance(stmt, S.BufferStore | S.Evaluate):
            return self._leaf(stmt)
        return self._nested(stmt)

    def _nest(self, stmt: S.Stmt) -> S.Stmt:
        nest = parallel_nest(stmt)
        if any(isinstance(extent, int) and extent <= 0 for extent in nest.extents):
            return visit.sequence([], stmt.span)
        return phase(with_hoisted_guard(emit_nest(self._scope, nest)))

    def _scan(self, stmt: S.AttrStmt) -> S.Stmt:
        if direct_scan(stmt, frozenset(self._scope.shared)) is None:
            return self.stmt(stmt.body)
        return emit_scan(self._scope, marked_call(stmt))

    def _reduction(self, stmt: S.AttrStmt) -> S.Stmt:
        shared = frozenset(self._scope.shared)
        if direct_reduction(stmt, shared) is None:
            return self.stmt(stmt.body)
        is_partial = any(stmt.same_as(partial) for partial in self._partial)
        return emit_reduction(self._scope, marked_call(stmt), is_partial=is_partial)

    def _matrix(self, stmt: S.AttrStmt) -> S.Stmt:
        elsewhere = frozenset(self._scope.plan.elsewhere)
        product = self._multiplier.product(stmt, elsewhere, self._scope.shared)
        place = from_tvm(stmt.span)
        where = "" if place is None else f"line {place.line}: "
        self._scope.products.append(f"{where}{self._multiplier.explain(stmt, elsewhere)}")
        if product is None:
            return self.stmt(stmt.body)
        self._scope.tiles.update(product.tiles)
        return product.emit(self._scope)

    def _instructions(self, stmt: S.Stmt) -> S.Stmt | None:
        """What has to do with matrix instructions; `None` for any other statement."""
        if is_matrix(stmt):
            return self._matrix(stmt)
        if is_store(stmt):
            return self._store(stmt)
        return self._settle(stmt) if is_settle(stmt) or is_hold(stmt) else None

    def _store(self, stmt: S.AttrStmt) -> S.Stmt:
        units = self._multiplier.units
        stored = None if units is None else units.store(matrix_call(stmt), self._scope)
        return self.stmt(stmt.body) if stored is None else stored

    def _settle(self, stmt: S.AttrStmt) -> S.Stmt:
        units = self._multiplier.units
        if units is None or stmt.node not in self._scope.registers:
            return visit.sequence([])
        if is_hold(stmt):
            return units.hold(stmt.node, self._scope)
        in_flight = 0 if self._scope.waits_for_all else int(stmt.value)
        return units.settle(stmt.node, in_flight, self._scope, stmt.span)

    def _leaf(self, stmt: S.BufferStore | S.Evaluate) -> S.Stmt:
        rewritten = self._scope.rewrite(stmt, {}, 0)
        if not self._is_for_the_block(rewritten):
            return rewritten
        first = E.EQ(self._scope.thread, int32(0))
        return phase(S.IfThenElse(first, rewritten, None, stmt.span))

    def _is_for_the_block(self, stmt: S.Stmt) -> bool:
        """Whether the statement has an effect outside of the thread that the block has once."""
        if self._scope.block == 1 or is_barrier(stmt) or is_for_every_thread(stmt):
            return False
        if not self._is_one_program:
            return is_printed_once(stmt)
        if isinstance(stmt, S.BufferStore):
            return regions.scope(stmt.buffer) in (regions.GLOBAL, *regions.SHARED, regions.REDUCER)
        return isinstance(stmt.value, ir.Call)

    def _nested(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.For):
            if not self._is_one_program and (vectors := emit_vectorized(self._scope, stmt, self._names)) is not None:
                return vectors
            bounds = {name: self._value(getattr(stmt, name)) for name in ("min", "extent")}
            before, behind = self._deferred(stmt)
            return visit.sequence([*before, rebuild.loop(stmt, **bounds, body=self.stmt(stmt.body)), *behind])
        if isinstance(stmt, S.IfThenElse):
            otherwise = None if stmt.else_case is None else self.stmt(stmt.else_case)
            return S.IfThenElse(self._value(stmt.condition), self.stmt(stmt.then_case), otherwise, stmt.span)
        if isinstance(stmt, S.While):
            return S.While(self._value(stmt.condition), self.stmt(stmt.body), stmt.span)
        if thread_groups.is_region(stmt):
            return self._group(stmt)
        if isinstance(stmt, S.AttrStmt):
            return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self.stmt(stmt.body), stmt.span)
        if isinstance(stmt, S.Bind):
            return self._bind(stmt)
        return self._scope.rewrite(stmt, {}, 0)

    def _deferred(self, loop: S.For) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """What stands before and behind a loop whose sums of rows stay in parts; their reductions are noted."""
        before, behind = [], []
        for one in self._sums:
            if one.loop.same_as(loop) and (groups := threads_of_a_row(self._scope, one)):
                self._partial.append(one.reduction)
                before.append(begin(self._scope, one.total, groups))
                behind.append(end(self._scope, one.total, groups))
        return before, behind

    def _group(self, stmt: S.AttrStmt) -> S.Stmt:
        """The region of some threads, numbered from 0 inside."""
        group = thread_groups.group_of(stmt)
        thread = tirx.Var("thread", "int32")
        scope = replace(self._scope, thread=thread, block=group.count)
        inner = _Block(scope, replace(self._multiplier, threads=group.count), is_one_program=self._is_one_program)
        first, outer = int32(group.first), self._scope.thread
        body = visit.sequence([S.Bind(thread, outer - first), inner.stmt(stmt.body)], stmt.span)
        among = E.And(E.GE(outer, first), E.LT(outer, int32(group.first + group.count)))
        return thread_groups.region(group, S.IfThenElse(among, body, None, stmt.span))

    def _bind(self, stmt: S.Bind) -> S.Stmt:
        """A value that an atomic update gives is the block's: one thread makes it, and the others read it."""
        value = self._value(stmt.value)
        if not visit.collect(value, ir.TensorLoad) and not visit.collect(value, ir.Call):
            self._names[stmt.var] = substitute(value, self._names)
        if self._scope.block == 1 or not self._is_one_program or not exchanges(value, ATOMIC_UPDATES):
            return S.Bind(stmt.var, value, stmt.span)
        place = self._scope.workspace(str(stmt.var.name), str(stmt.var.ty.dtype), 1)
        first = E.EQ(self._scope.thread, int32(0))
        store = S.BufferStore(place, value, [int32(0)], stmt.span)
        made = phase(S.IfThenElse(first, store, None, stmt.span))
        return visit.sequence([made, S.Bind(stmt.var, tirx.BufferLoad(place, [int32(0)]), stmt.span)], stmt.span)

    def _value(self, expr: ir.Expr) -> ir.Expr:
        return self._scope.rewrite(expr, {}, 0)
