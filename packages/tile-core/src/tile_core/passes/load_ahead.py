"""Copies of pipelined loops one iteration ahead, through registers: for targets whose threads make all copies.

An iteration of a loop of `T.Pipelined` with two stages or more finds its tiles in registers. It stores them to shared
memory, where the loop's statements read them, meets the other threads, and at once begins to load those of the next
iteration, which arrive while it computes. The loads stand behind the barrier: some hardware waits at a barrier for all
loads that are under way. Shared memory holds one stage, as without pipelining; what a tile holds at any statement is
what it held before, so only the tensors that are read early must not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.marks import NUM_STAGES, ORDER, SAFE_VALUE, STAGE
from tile_core.ir.ops import tile_op
from tile_core.ir.renew import renewed
from tile_core.ir.spans import from_tvm
from tile_core.ir.uses import uses
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.copy import LAYOUT
from tile_core.ops.threads import tells_threads_apart
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.nests import FOREIGN

OPTION = "tile.load_ahead"
SCHEDULE_BARRIER = "tile.schedule_barrier"
"""A call that the vendor's compiler moves no instruction across: else it issues loads late, to save registers."""
WORD_BYTES = 4
SHARE = 4
"""A thread gives one register in so many to tiles that are under way."""


@dataclass(frozen=True)
class LoadAhead:
    """`tile.load_ahead` (default true) switches it off."""

    name: ClassVar[str] = "load_ahead"
    options: ClassVar[tuple[str, ...]] = (OPTION,)

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report gets `loaded_ahead`, a line for each loop."""
        told = context.report["loaded_ahead"] = []
        if not context.options.get(OPTION, True):
            return func
        padded = {attr.node for attr in visit.collect(func.body, S.AttrStmt) if attr.attr_key == SAFE_VALUE}
        tensors = frozenset(func.params) - padded
        budget = int(context.capabilities.fact("registers_per_thread")) // SHARE * WORD_BYTES

        def launched(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            if tells_threads_apart(launch) or any(map(thread_groups.is_region, visit.statements(launch.body))):
                return loop
            reader = _Reader(launch, tensors, func.body, budget)
            body = visit.mutate(launch.body, (S.For, reader.loop))
            told.extend(reader.told)
            return replace(launch, body=body).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, launched)), func.span)


@dataclass(frozen=True)
class _Load:
    """A copy of a loop's body, `source` being what it reads in terms of the loop's variable, and its registers."""

    call: OpCall
    source: ir.TensorRegion
    held: ir.Var

    def at(self, values: dict[ir.Var, ir.Expr]) -> S.Stmt:
        """The load of the iteration that `values` says."""
        ranges = [
            ir.Range.from_min_extent(substitute(axis.min, values), substitute(axis.extent, values))
            for axis in self.source.region
        ]
        loaded = {"src": tirx.BufferRegion(self.source.source, ranges), "dst": regions.whole(self.held)}
        return renewed(replace(self.call, args={**self.call.args, **loaded}).to_stmt())

    @property
    def store(self) -> S.Stmt:
        """From registers to the tile."""
        return replace(self.call, args={**self.call.args, "src": regions.whole(self.held)}, attrs={}).to_stmt()


class _Reader:
    """The loops of one launch."""

    def __init__(self, launch: launch_ir.Launch, tensors: frozenset[ir.Var], program: S.Stmt, budget: int) -> None:
        self._launch, self._budget = launch, budget
        self._constant = {tensor for tensor in tensors if _is_only_read(tensor, launch.body, program)}
        self._threads = prod(launch.threads)
        self.told: list[str] = []

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        """A loop with its copies ahead, or as it was."""
        notes = loop.annotations
        if int(notes.get(NUM_STAGES, 0)) < 2 or loop.step is not None or ORDER in notes or STAGE in notes:
            return mutator.default_mutate(loop)
        statements = list(loop.body.seq) if isinstance(loop.body, S.SeqStmt) else [loop.body]
        loads = self._loads(loop, statements)
        if not loads:
            return mutator.default_mutate(loop)
        place = from_tvm(loop.span)
        where = "" if place is None else f"line {place.line}: "
        self.told.append(where + ", ".join(load.held.name.removesuffix("_ahead") for load in loads.values()))
        held = [S.AllocBuffer(load.held, span=load.call.span) for load in loads.values()]
        first = [load.at({loop.loop_var: loop.min}) for load in loads.values()]
        body = visit.sequence(self._body(loop, statements, loads), loop.body.span)
        annotations = {key: value for key, value in notes.items() if key != NUM_STAGES}
        return visit.sequence([*held, *first, rebuild.loop(loop, body=body, annotations=annotations)], loop.span)

    def _body(self, loop: S.For, statements: list[S.Stmt], loads: Mapping[int, _Load]) -> list[S.Stmt]:
        """Neighbouring copies together: all stores, the barrier, then the loads of the next iteration."""
        following = loop.loop_var + E.IntImm(loop.loop_var.ty, 1)
        found: list[S.Stmt] = []
        waiting: list[S.Stmt] = []

        def flush() -> None:
            if waiting:
                more = E.LT(following, loop.min + loop.extent)
                ahead = S.IfThenElse(more, visit.sequence(list(waiting), loop.span), None, loop.span)
                found.extend((barrier(loop.span), ahead, _schedule_barrier(loop.span)))
                waiting.clear()

        for position, stmt in enumerate(statements):
            if position not in loads:
                flush()
                found.append(stmt)
                continue
            found.append(loads[position].store)
            waiting.append(loads[position].at({loop.loop_var: following}))
        flush()
        return found

    def _loads(self, loop: S.For, statements: list[S.Stmt]) -> dict[int, _Load]:
        """The copies that can be ahead, by position, as far as the registers go."""
        names = {stmt.var: stmt.value for stmt in statements if isinstance(stmt, S.Bind)}
        inner = {one.loop_var for one in visit.collect(loop.body, S.For)}
        found: dict[int, _Load] = {}
        left = self._budget
        for position, stmt in enumerate(statements):
            load = self._load(stmt, names, inner)
            if load is None:
                continue
            size = prod(regions.constant(extent) or 0 for extent in load.held.shape)
            own = -(-size // self._threads) * max(1, int(load.held.dtype.bits) // 8)
            if own <= left:
                found[position], left = load, left - own
        return found

    def _load(self, stmt: S.Stmt, names: dict[ir.Var, ir.Expr], inner: set[ir.Var]) -> _Load | None:
        if op_name(stmt) != "tile.copy":
            return None
        call = view(stmt, OPS)
        src, dst = call.region("src"), call.region("dst")
        tile = dst.source
        if src.source not in self._constant or regions.scope(tile) not in regions.SHARED or LAYOUT in call.attrs:
            return None
        shape = [regions.constant(extent) for extent in tile.shape]
        if not regions.is_whole(dst) or None in shape:
            return None
        ranges = [(axis.min, axis.extent) for axis in src.region]
        for _step in names:
            ranges = [(substitute(start, names), substitute(extent, names)) for start, extent in ranges]
        parts = [part for pair in ranges for part in pair]
        if any(visit.collect(part, kind) for part in parts for kind in (ir.TensorLoad, ir.Call)):
            return None
        if any(var in inner or var in names for part in parts for var in visit.collect(part, ir.Var)):
            return None
        source = tirx.BufferRegion(src.source, [ir.Range.from_min_extent(start, extent) for start, extent in ranges])
        held = tirx.decl_buffer(shape, str(src.source.dtype), f"{tile.name}_ahead", scope=regions.FRAGMENT)
        return _Load(call, source, held)


def _schedule_barrier(span: ir.Span | None) -> S.Stmt:
    call = ir.Call(tile_op(SCHEDULE_BARRIER), [], ret_ty="void")
    return S.AttrStmt(tirx.IntImm("int32", 0), FOREIGN, tirx.IntImm("int32", 0), S.Evaluate(call, span), span)


def _is_only_read(tensor: ir.Var, body: S.Stmt, program: S.Stmt) -> bool:
    """Whether nothing in a launch may write a tensor, under its name or another."""
    found = uses(tensor, body, program)
    if found.stores or found.addresses or found.names:
        return False
    calls = (view(stmt, OPS) for stmt in visit.collect(body, S.Evaluate) if op_name(stmt) in OPS)
    return not any(region.source.same_as(tensor) for call in calls for region in call.written)
