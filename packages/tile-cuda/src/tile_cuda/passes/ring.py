"""The ring of stages of a pipelined loop: its storage, and the loop as the block and the copying thread run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ops.base import OpCall, op_name, view
from tile_core.passes import rebuild
from tile_core.passes.matrix import SETTLE
from tile_core.passes.nests import FOREIGN
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, ONCE
from tile_core.passes.swizzle_tiles import ALIGNMENT
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import mbarrier_arrive, mbarrier_expect, mbarrier_wait
from tile_cuda.instructions.tma import tma_load
from tile_cuda.matrix.wgmma import IN_FLIGHT
from tile_cuda.passes.assign_roles import ARRIVALS
from tile_cuda.passes.pipelines import NUM_STAGES, CopyGroup, Pipeline, Preload, statements_of
from tile_cuda.passes.tensor_copies import TensorCopy, touched

WARP = 32


@dataclass(frozen=True)
class Ring:
    """The storage of one pipeline: a tile with stages for each copy, two barriers a stage for each group.

    `counter` counts iterations where another loop repeats the pipeline; each program has its own.
    """

    tiles: Mapping[ir.Var, ir.Var]
    full: tuple[ir.Var, ...]
    empty: tuple[ir.Var, ...]
    counter: ir.Var


def ring_of(pipeline: Pipeline, number: int) -> Ring:
    """Fresh storage; `number` tells the pipelines of a launch apart."""

    def tile(buffer: ir.Var) -> ir.Var:
        shape = [int32(pipeline.stages), *buffer.shape]
        scope = regions.scope(buffer)
        return tirx.decl_buffer(shape, str(buffer.dtype), str(buffer.name), scope=scope, data_alignment=ALIGNMENT)

    def barriers(word: str, group: int) -> ir.Var:
        name = f"{word}_{number}{group}" if number or group else word
        return tirx.decl_buffer((pipeline.stages,), "uint64", name, scope=regions.SHARED[0])

    return Ring(
        tiles={copy.target: tile(copy.target) for copy in pipeline.copies},
        full=tuple(barriers("full", group) for group in range(len(pipeline.groups))),
        empty=tuple(barriers("empty", group) for group in range(len(pipeline.groups))),
        counter=tirx.decl_buffer((1,), "int32", "iteration", scope=regions.VAR),
    )


def arrival_of(preload: Preload) -> ir.Var:
    """The barrier at which a tile that is filled once has arrived."""
    name = f"{preload.copy.target.name}_full"
    return tirx.decl_buffer((1,), "uint64", name, scope=regions.SHARED[0])


def preloader(preload: Preload, full: ir.Var, maps: Mapping[ir.Var, ir.Var]) -> Callable[[S.Stmt], S.Stmt]:
    """What the copying thread does in place of a copy that is made once."""
    copy, barrier = preload.copy, barrier_at(full, int32(0))
    loads = _loads(copy, copy.target, [], maps[copy.target], barrier)
    return lambda _stmt: visit.sequence([S.Evaluate(mbarrier_expect(barrier, int32(copy.bytes))), *loads])


def _loads(copy: TensorCopy, tile: ir.Var, leading: list[ir.Expr], tensor: ir.Var, barrier: ir.Expr) -> list[S.Stmt]:
    """The instructions that fill one tile, strip by strip."""
    found: list[S.Stmt] = []
    for strip in range(copy.columns // copy.strip):
        place = tirx.address_of(tirx.BufferLoad(tile, [*leading, int32(0), int32(strip * copy.strip)]))
        found.append(S.Evaluate(tma_load(place, tensor, barrier, *copy.coordinates(strip)), copy.call.span))
    return found


def allocations(pipeline: Pipeline, ring: Ring) -> list[S.Stmt]:
    """The tiles and barriers of a ring."""
    kind = ALWAYS if pipeline.is_repeated else ONCE
    tiles = [S.AllocBuffer(ring.tiles[copy.target], {ASYNCHRONOUS: kind}) for copy in pipeline.copies]
    barriers = [
        S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: word})
        for word, buffers in (("full", ring.full), ("empty", ring.empty))
        for buffer in buffers
    ]
    return [*tiles, *barriers]


@dataclass(frozen=True)
class _Position:
    """Where a program stands in the ring of stages: names bound at the start of an iteration, what ends it.

    `before` is the stage of the iteration before.
    """

    stage: ir.Var
    phase: ir.Var
    before: ir.Expr
    head: list[S.Stmt]
    tail: list[S.Stmt]


def _position(pipeline: Pipeline, counter: ir.Var) -> _Position:
    """Counted by the loop itself, or where another loop repeats it by `counter`, a variable of the thread."""
    stages, loop = int32(pipeline.stages), pipeline.loop
    stage, phase = tirx.Var("stage", "int32"), tirx.Var("phase", "int32")
    tail: list[S.Stmt] = []
    if pipeline.is_repeated:
        count: ir.Expr = tirx.BufferLoad(counter, [int32(0)])
        tail = [S.BufferStore(counter, count + 1, [int32(0)])]
    else:
        count = loop.loop_var - loop.min
        count = count if str(count.ty.dtype) == "int32" else count.astype("int32")
    head: list[S.Stmt] = [
        S.Bind(stage, tirx.floormod(count, stages)),
        S.Bind(phase, tirx.floormod(tirx.floordiv(count, stages), int32(2))),
    ]
    before = tirx.floormod(count + (pipeline.stages - 1), stages)
    return _Position(stage, phase, before, head, tail)


def barrier_at(buffer: ir.Var, stage: ir.Expr) -> ir.Expr:
    """The address of the barrier of a stage."""
    return tirx.address_of(tirx.BufferLoad(buffer, [stage]))


class Consumer:
    """The loop as the block runs it.

    `overlaps(stmt)`: whether a statement is a product that may still run when the next iteration begins. If it is all
    that reads its tiles, and nothing else in the loop touches its result, it is left in flight, and each iteration
    gives back the stage of the one before.
    """

    def __init__(self, pipeline: Pipeline, ring: Ring, thread: ir.Var, overlaps: Callable[[S.Stmt], bool]) -> None:
        self._pipeline, self._ring, self._thread, self._overlaps = pipeline, ring, thread, overlaps

    def loop(self) -> S.Stmt:
        """The loop, and what ends it."""
        loop = self._pipeline.loop
        at = _position(self._pipeline, self._ring.counter)
        copied = {copy.call.region("dst").source for copy in self._pipeline.copies}
        stmts: list[S.Stmt] = list(at.head)
        settled: list[ir.Var] = []
        for position, stmt in enumerate(statements_of(loop)):
            stmts += [self._wait(number, at) for number, _group in self._groups("first", position)]
            if self._is_copy(stmt, copied):
                continue
            product = self._left_in_flight(stmt, position)
            stmts.append(self._staged(stmt if product is None else product.to_stmt(), at.stage))
            if product is not None:
                stmts.append(S.IfThenElse(E.GT(loop.loop_var, loop.min), self._release(0, at.before), None))
                settled.append(product.region("c").source)
                continue
            stmts += [self._release(number, at.stage) for number, _group in self._groups("last", position)]
        annotations = {key: value for key, value in loop.annotations.items() if key != NUM_STAGES}
        body = visit.sequence([*stmts, *at.tail], loop.body.span)
        return visit.sequence(
            [rebuild.loop(loop, body=body, annotations=annotations), *self._settled(settled)], loop.span
        )

    def _left_in_flight(self, stmt: S.Stmt, position: int) -> OpCall | None:
        """The call of a product that the loop does not wait for."""
        from tile_core.ops import OPS

        if self._pipeline.stages < 2 or len(self._pipeline.groups) != 1 or not self._overlaps(stmt):
            return None
        (group,) = self._pipeline.groups
        call = view(stmt, OPS)
        result = call.region("c").source
        others = [other for at, other in enumerate(statements_of(self._pipeline.loop)) if at != position]
        if (group.first, group.last) != (position, position) or any(result in touched(other) for other in others):
            return None
        tiles = {copy.target for copy in group.copies}
        if not {call.region(side).source for side in "ab"} <= tiles:
            return None
        return replace(call, attrs={**call.attrs, IN_FLIGHT: 1})

    def _settled(self, results: list[ir.Var]) -> list[S.Stmt]:
        """Behind the loop: wait for what is in flight, and give the last stage back where the loop is repeated."""
        loop = self._pipeline.loop
        nothing = visit.sequence([])
        found: list[S.Stmt] = [S.AttrStmt(result, SETTLE, int32(1), nothing, loop.span) for result in results]
        if results and self._pipeline.is_repeated:
            count = tirx.BufferLoad(self._ring.counter, [int32(0)])
            last = tirx.floormod(count - 1, int32(self._pipeline.stages))
            found.append(S.IfThenElse(E.GT(loop.extent, E.IntImm(loop.extent.ty, 0)), self._release(0, last), None))
        return found

    def _groups(self, end: str, position: int) -> list[tuple[int, CopyGroup]]:
        return [
            (number, group) for number, group in enumerate(self._pipeline.groups) if getattr(group, end) == position
        ]

    def _is_copy(self, stmt: S.Stmt, copied: set[ir.Var]) -> bool:
        from tile_core.ops import OPS

        return op_name(stmt) == "tile.copy" and view(stmt, OPS).region("dst").source in copied

    def _wait(self, number: int, at: _Position) -> S.Stmt:
        return foreign(mbarrier_wait(barrier_at(self._ring.full[number], at.stage), at.phase))

    def _release(self, number: int, stage: ir.Expr) -> S.Stmt:
        """One lane of each warp says that the warp is done."""
        first = E.EQ(tirx.floormod(self._thread, int32(WARP)), int32(0))
        arrive = S.Evaluate(mbarrier_arrive(barrier_at(self._ring.empty[number], stage)))
        return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(first, arrive, None))

    def _staged(self, stmt: S.Stmt, stage: ir.Var) -> S.Stmt:
        """Accesses of the tiles at their stage."""
        tiles = self._ring.tiles

        def region(node: ir.TensorRegion, mutator: Any) -> ir.Expr:
            ranges = [
                ir.Range.from_min_extent(mutator.mutate(one.min), mutator.mutate(one.extent)) for one in node.region
            ]
            if node.source not in tiles:
                return tirx.BufferRegion(node.source, ranges)
            return tirx.BufferRegion(tiles[node.source], [ir.Range.from_min_extent(stage, int32(1)), *ranges])

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            indices = [mutator.mutate(index) for index in node.indices]
            if node.source not in tiles:
                return tirx.BufferLoad(node.source, indices)
            return tirx.BufferLoad(tiles[node.source], [stage, *indices])

        return visit.mutate(stmt, (ir.TensorRegion, region), (ir.TensorLoad, load))


class Producer:
    """The loop as the copying thread runs it."""

    def __init__(self, pipeline: Pipeline, ring: Ring, maps: Mapping[ir.Var, ir.Var]) -> None:
        self._pipeline, self._ring, self._maps = pipeline, ring, maps

    def loop(self, loop: S.For) -> S.Stmt:
        """The loop over nothing but copies."""
        at = _position(self._pipeline, self._ring.counter)
        names = [stmt for stmt in statements_of(loop) if isinstance(stmt, S.Bind)]
        stmts: list[S.Stmt] = [*names, *at.head]
        for number, group in enumerate(self._pipeline.groups):
            stmts += self._fill(number, group, at)
        body = visit.sequence([*stmts, *at.tail], loop.span)
        return rebuild.loop(loop, body=body, annotations={})

    def _fill(self, number: int, group: CopyGroup, at: _Position) -> list[S.Stmt]:
        full = barrier_at(self._ring.full[number], at.stage)
        empty = barrier_at(self._ring.empty[number], at.stage)
        total = sum(copy.bytes for copy in group.copies)
        stmts: list[S.Stmt] = [
            S.Evaluate(mbarrier_wait(empty, E.Sub(int32(1), at.phase))),
            S.Evaluate(mbarrier_expect(full, int32(total))),
        ]
        for copy in group.copies:
            stmts += _loads(copy, self._ring.tiles[copy.target], [at.stage], self._maps[copy.target], full)
        return stmts


def foreign(call: ir.Expr) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(call))
