"""The ring of stages of a pipelined loop: its storage, a program's place in it, and the loop of the copying thread.

`consumer.py` is the loop as the block runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.passes import rebuild
from tile_core.passes.nests import FOREIGN
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, ONCE, STAGES
from tile_core.passes.swizzle_tiles import ALIGNMENT
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import fence_async, mbarrier_arrive, mbarrier_expect, mbarrier_wait
from tile_cuda.instructions.tma import tma_load, tma_load_multicast
from tile_cuda.matrix.warp import WARP
from tile_cuda.passes.assign_roles import ARRIVALS, BLOCKS, UNIT
from tile_cuda.passes.pipelines import CopyGroup, Pipeline, Preload, statements_of
from tile_cuda.passes.sharing import Cluster
from tile_cuda.passes.tensor_copies import TensorCopy


@dataclass(frozen=True)
class Ring:
    """The storage of one pipeline: a tile with stages for each copy, two barriers a stage for each group.

    `counter` counts iterations where another loop repeats the pipeline; each program has its own.
    """

    tiles: Mapping[ir.Var, ir.Var]
    full: tuple[ir.Var, ...]
    empty: tuple[ir.Var, ...]
    counter: ir.Var


def stages_of(pipeline: Pipeline) -> dict[ir.Var, ir.Var]:
    """For each tile that is copied ahead one of as many stages."""

    def tile(buffer: ir.Var) -> ir.Var:
        shape = [int32(pipeline.stages), *buffer.shape]
        scope = regions.scope(buffer)
        return tirx.decl_buffer(shape, str(buffer.dtype), str(buffer.name), scope=scope, data_alignment=ALIGNMENT)

    return {copy.target: tile(copy.target) for copy in pipeline.copies}


def at_stage(stmt: S.Stmt, tiles: Mapping[ir.Var, ir.Var], stage: ir.Expr) -> S.Stmt:
    """`stmt` with its accesses of tiles at a stage of theirs."""

    def region(node: ir.TensorRegion, mutator: Any) -> ir.Expr:
        ranges = [ir.Range.from_min_extent(mutator.mutate(one.min), mutator.mutate(one.extent)) for one in node.region]
        if node.source not in tiles:
            return tirx.BufferRegion(node.source, ranges)
        return tirx.BufferRegion(tiles[node.source], [ir.Range.from_min_extent(stage, int32(1)), *ranges])

    def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
        indices = [mutator.mutate(index) for index in node.indices]
        if node.source not in tiles:
            return tirx.BufferLoad(node.source, indices)
        return tirx.BufferLoad(tiles[node.source], [stage, *indices])

    def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
        indices, value = [mutator.mutate(index) for index in node.indices], mutator.mutate(node.value)
        if node.buffer not in tiles:
            return S.BufferStore(node.buffer, value, indices, node.span)
        return S.BufferStore(tiles[node.buffer], value, [stage, *indices], node.span)

    return visit.mutate(stmt, (ir.TensorRegion, region), (ir.TensorLoad, load), (S.BufferStore, store))


def ring_of(pipeline: Pipeline, number: int) -> Ring:
    """Fresh storage; `number` tells the pipelines of a launch apart."""

    def barriers(word: str, group: int) -> ir.Var:
        name = f"{word}_{number}{group}" if number or group else word
        return tirx.decl_buffer((pipeline.stages,), "uint64", name, scope=regions.SHARED[0])

    return Ring(
        tiles=stages_of(pipeline),
        full=tuple(barriers("full", group) for group in range(len(pipeline.groups))),
        empty=tuple(barriers("empty", group) for group in range(len(pipeline.groups))),
        counter=tirx.decl_buffer((1,), "int32", "iteration", scope=regions.VAR),
    )


@dataclass(frozen=True)
class Arrival:
    """The barriers of a tile that is filled once, or once a turn: when it is there, and when all have read it.

    Only a tile that is filled again has the second. `is_loaded`: threads load from the tile. Products of warpgroups
    read it by the proxy that fills it, and have been waited for.
    """

    preload: Preload
    full: ir.Var
    empty: ir.Var | None
    is_loaded: bool

    @property
    def phase(self) -> ir.Expr:
        """The phase of this turn."""
        turn = self.preload.turn
        return int32(0) if turn is None else tirx.floormod(turn, int32(2))

    def allocations(self) -> list[S.Stmt]:
        """The tile and its barriers."""
        kind = ONCE if self.empty is None else ALWAYS
        found: list[S.Stmt] = [S.AllocBuffer(self.preload.copy.target, {ASYNCHRONOUS: kind})]
        found.append(S.AllocBuffer(self.full, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full"}))
        if self.empty is not None:
            found.append(S.AllocBuffer(self.empty, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "empty"}))
        return found

    def wait(self) -> S.Stmt:
        """What the block does in place of the copy."""
        return foreign(mbarrier_wait(barrier_at(self.full, int32(0)), self.phase))

    def release(self, thread: ir.Var) -> list[S.Stmt]:
        """What the block does once it has read the tile."""
        if self.empty is None:
            return []
        fence = have_read() if self.is_loaded else []
        return [*fence, arrival(barrier_at(self.empty, int32(0)), thread)]

    def load(self, maps: Mapping[ir.Var, ir.Var]) -> S.Stmt:
        """What the copying thread does in place of the copy."""
        copy, full = self.preload.copy, barrier_at(self.full, int32(0))
        stmts: list[S.Stmt] = []
        if self.empty is not None:
            stmts.append(S.Evaluate(mbarrier_wait(barrier_at(self.empty, int32(0)), E.Sub(int32(1), self.phase))))
        stmts.append(S.Evaluate(mbarrier_expect(full, int32(copy.bytes))))
        return visit.sequence([*stmts, *_loads(copy, copy.target, [], maps[copy.target], full)])


def arrival_of(preload: Preload, *, is_loaded: bool) -> Arrival:
    """Fresh barriers."""

    def barrier(word: str) -> ir.Var:
        return tirx.decl_buffer((1,), "uint64", f"{preload.copy.target.name}_{word}", scope=regions.SHARED[0])

    return Arrival(preload, barrier("full"), None if preload.turn is None else barrier("empty"), is_loaded)


def _shared_loads(
    copy: TensorCopy, tile: ir.Var, leading: list[ir.Expr], tensor: ir.Var, barrier: ir.Expr, cluster: Cluster
) -> list[S.Stmt]:
    """The instructions that fill this block's part of one tile in every block of the cluster."""
    found: list[S.Stmt] = []
    for at in range(copy.part_strips):
        strip: ir.Expr | int = cluster.rank * copy.part_strips + at if copy.is_cut_in_strips else at
        row = int32(0) if copy.is_cut_in_strips else cluster.rank * copy.part_rows
        place = tirx.address_of(tirx.BufferLoad(tile, [*leading, row, int32(1) * strip * copy.strip]))
        load = tma_load_multicast(place, tensor, barrier, cluster.mask, *copy.coordinates(strip, row))
        found.append(S.Evaluate(load, copy.call.span))
    return found


def _loads(copy: TensorCopy, tile: ir.Var, leading: list[ir.Expr], tensor: ir.Var, barrier: ir.Expr) -> list[S.Stmt]:
    """The instructions that fill one tile: strip by strip, each in boxes of a part's rows."""
    found: list[S.Stmt] = []
    for strip in range(copy.strips):
        for row in range(0, copy.rows, copy.part_rows):
            place = tirx.address_of(tirx.BufferLoad(tile, [*leading, int32(row), int32(strip * copy.strip)]))
            load = tma_load(place, tensor, barrier, *copy.coordinates(strip, row), keep=copy.keep)
            found.append(S.Evaluate(load, copy.call.span))
    return found


def allocations(pipeline: Pipeline, ring: Ring) -> list[S.Stmt]:
    """The tiles and barriers of a ring."""
    kind = ALWAYS if pipeline.is_repeated else ONCE
    notes = {ASYNCHRONOUS: kind, STAGES: pipeline.stages}
    tiles = [S.AllocBuffer(ring.tiles[copy.target], notes) for copy in pipeline.copies]
    full = [S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full"}) for buffer in ring.full]
    empty = [
        S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "empty", BLOCKS: group.blocks, UNIT: group.unit})
        for buffer, group in zip(ring.empty, pipeline.groups, strict=True)
    ]
    return [*tiles, *full, *empty]


@dataclass(frozen=True)
class Position:
    """Where a program stands in the ring of stages: names bound at the start of an iteration, what ends it.

    `before` is the stage of the iteration before.
    """

    stage: ir.Var
    phase: ir.Var
    before: ir.Expr
    head: list[S.Stmt]
    tail: list[S.Stmt]


def position_of(pipeline: Pipeline, counter: ir.Var) -> Position:
    """A program's place, counted by the loop itself or, where another loop repeats it, by the thread's `counter`."""
    stages, loop = int32(pipeline.stages), pipeline.loop
    stage, phase = tirx.Var("stage", "int32"), tirx.Var("phase", "int32")
    tail: list[S.Stmt] = []
    if pipeline.is_counted:
        count: ir.Expr = tirx.BufferLoad(counter, [int32(0)])
        tail = [S.BufferStore(counter, count + 1, [int32(0)])]
    else:
        count = as_int32(loop.loop_var - loop.min)
        count = count if pipeline.turn is None else pipeline.turn * as_int32(loop.extent) + count
    rounds, place = _divided(count, pipeline.stages)
    head: list[S.Stmt] = [S.Bind(stage, place), S.Bind(phase, _divided(rounds, 2)[1])]
    before = tirx.floormod(count + (pipeline.stages - 1), stages)
    return Position(stage, phase, before, head, tail)


def _divided(count: ir.Expr, divisor: int) -> tuple[ir.Expr, ir.Expr]:
    """Quotient and rest of a number that is not negative, which a variable in memory does not tell."""
    if divisor & (divisor - 1) or not visit.collect(count, ir.TensorLoad):
        return tirx.floordiv(count, int32(divisor)), tirx.floormod(count, int32(divisor))
    return count >> int32(divisor.bit_length() - 1), tirx.bitwise_and(count, int32(divisor - 1))


def as_int32(value: ir.Expr) -> ir.Expr:
    """An integer as an int32."""
    return value if str(value.ty.dtype) == "int32" else value.astype("int32")


def barrier_at(buffer: ir.Var, stage: ir.Expr) -> ir.Expr:
    """The address of the barrier of a stage."""
    return tirx.address_of(tirx.BufferLoad(buffer, [stage]))


class Producer:
    """The loop as the copying thread runs it."""

    def __init__(
        self, pipeline: Pipeline, ring: Ring, maps: Mapping[ir.Var, ir.Var], cluster: Cluster | None = None
    ) -> None:
        self._pipeline, self._ring, self._maps, self._cluster = pipeline, ring, maps, cluster

    def loop(self, loop: S.For) -> S.Stmt:
        """The loop over nothing but copies."""
        at = position_of(self._pipeline, self._ring.counter)
        names = [stmt for stmt in statements_of(loop) if isinstance(stmt, S.Bind)]
        stmts: list[S.Stmt] = [*names, *at.head]
        for number, group in enumerate(self._pipeline.groups):
            stmts += self._fill(number, group, at)
        body = visit.sequence([*stmts, *at.tail], loop.span)
        return rebuild.loop(loop, body=body, annotations={})

    def _fill(self, number: int, group: CopyGroup, at: Position) -> list[S.Stmt]:
        full = barrier_at(self._ring.full[number], at.stage)
        empty = barrier_at(self._ring.empty[number], at.stage)
        total = sum(copy.bytes for copy in group.copies)
        stmts: list[S.Stmt] = [
            S.Evaluate(mbarrier_wait(empty, E.Sub(int32(1), at.phase))),
            S.Evaluate(mbarrier_expect(full, int32(total))),
        ]
        for copy in group.copies:
            place = self._ring.tiles[copy.target], [at.stage], self._maps[copy.target], full
            stmts += _loads(copy, *place) if copy.parts == 1 else self._shared(copy, place)
        return stmts

    def _shared(self, copy: TensorCopy, place: tuple[ir.Var, list[ir.Expr], ir.Var, ir.Expr]) -> list[S.Stmt]:
        cluster = self._cluster
        assert cluster is not None, "a tile in parts without a cluster"
        shared = _shared_loads(copy, *place, cluster)
        if cluster.together is None:
            return shared
        return [S.IfThenElse(cluster.together, visit.sequence(shared), visit.sequence(_loads(copy, *place)))]


def have_read() -> list[S.Stmt]:
    """What the lanes of a warp have loaded is in their registers, before an engine may write there.

    An arrival alone does not say so: it may overtake loads, and engines see memory by another proxy (PTX ISA, "Async
    proxy").
    """
    return [foreign(fence_async()), together()]


def together() -> S.Stmt:
    """The lanes of a warp wait for each other."""
    return foreign(ir.Call(tile_op("tile.thread.sync_warp"), [], ret_ty="void"))


def arrival(barrier: ir.Expr, thread: ir.Var, unit: int = WARP) -> S.Stmt:
    """The first of every `unit` threads arrives."""
    first = E.EQ(tirx.floormod(thread, int32(unit)), int32(0))
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(first, S.Evaluate(mbarrier_arrive(barrier)), None))


def foreign(call: ir.Expr) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(call))
