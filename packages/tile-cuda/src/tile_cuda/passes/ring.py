"""The ring of stages of a pipelined loop: its storage, and the loop as the block and the copying thread run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.marks import NUM_STAGES
from tile_core.ir.ops import tile_op
from tile_core.ir.renew import renewed
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute
from tile_core.passes.matrix import HOLD, SETTLE
from tile_core.passes.nests import FOREIGN, is_parallel
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, ONCE, STAGES
from tile_core.passes.swizzle_tiles import ALIGNMENT
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import fence_async, mbarrier_arrive, mbarrier_expect, mbarrier_wait
from tile_cuda.instructions.tma import tma_load, tma_load_multicast
from tile_cuda.instructions.wgmma import assume, wgmma_wait
from tile_cuda.passes.assign_roles import ARRIVALS, BLOCKS
from tile_cuda.passes.pipelines import CopyGroup, Pipeline, Preload, statements_of
from tile_cuda.passes.sharing import Cluster
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

    return visit.mutate(stmt, (ir.TensorRegion, region), (ir.TensorLoad, load))


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

    Only a tile that is filled again has the second.
    """

    preload: Preload
    full: ir.Var
    empty: ir.Var | None

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
        return [*_have_read(), _arrival_of_a_warp(barrier_at(self.empty, int32(0)), thread)]

    def load(self, maps: Mapping[ir.Var, ir.Var]) -> S.Stmt:
        """What the copying thread does in place of the copy."""
        copy, full = self.preload.copy, barrier_at(self.full, int32(0))
        stmts: list[S.Stmt] = []
        if self.empty is not None:
            stmts.append(S.Evaluate(mbarrier_wait(barrier_at(self.empty, int32(0)), E.Sub(int32(1), self.phase))))
        stmts.append(S.Evaluate(mbarrier_expect(full, int32(copy.bytes))))
        return visit.sequence([*stmts, *_loads(copy, copy.target, [], maps[copy.target], full)])


def arrival_of(preload: Preload) -> Arrival:
    """Fresh barriers."""

    def barrier(word: str) -> ir.Var:
        return tirx.decl_buffer((1,), "uint64", f"{preload.copy.target.name}_{word}", scope=regions.SHARED[0])

    return Arrival(preload, barrier("full"), None if preload.turn is None else barrier("empty"))


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
            found.append(S.Evaluate(tma_load(place, tensor, barrier, *copy.coordinates(strip, row)), copy.call.span))
    return found


def allocations(pipeline: Pipeline, ring: Ring) -> list[S.Stmt]:
    """The tiles and barriers of a ring."""
    kind = ALWAYS if pipeline.is_repeated else ONCE
    notes = {ASYNCHRONOUS: kind, STAGES: pipeline.stages}
    tiles = [S.AllocBuffer(ring.tiles[copy.target], notes) for copy in pipeline.copies]
    full = [S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full"}) for buffer in ring.full]
    empty = [
        S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "empty", BLOCKS: group.blocks})
        for buffer, group in zip(ring.empty, pipeline.groups, strict=True)
    ]
    return [*tiles, *full, *empty]


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
    if pipeline.is_counted:
        count: ir.Expr = tirx.BufferLoad(counter, [int32(0)])
        tail = [S.BufferStore(counter, count + 1, [int32(0)])]
    else:
        count = _as_int32(loop.loop_var - loop.min)
        count = count if pipeline.turn is None else pipeline.turn * _as_int32(loop.extent) + count
    rounds, place = _divided(count, pipeline.stages)
    head: list[S.Stmt] = [S.Bind(stage, place), S.Bind(phase, _divided(rounds, 2)[1])]
    before = tirx.floormod(count + (pipeline.stages - 1), stages)
    return _Position(stage, phase, before, head, tail)


def _divided(count: ir.Expr, divisor: int) -> tuple[ir.Expr, ir.Expr]:
    """Quotient and rest of a number that is not negative, which a variable in memory does not tell."""
    if divisor & (divisor - 1) or not visit.collect(count, ir.TensorLoad):
        return tirx.floordiv(count, int32(divisor)), tirx.floormod(count, int32(divisor))
    return count >> int32(divisor.bit_length() - 1), tirx.bitwise_and(count, int32(divisor - 1))


def _as_int32(value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == "int32" else value.astype("int32")


def barrier_at(buffer: ir.Var, stage: ir.Expr) -> ir.Expr:
    """The address of the barrier of a stage."""
    return tirx.address_of(tirx.BufferLoad(buffer, [stage]))


@dataclass(frozen=True)
class _Flight:
    """A product that runs beside the block: its call, the groups that it is the last to read, where it was issued.

    One that `is_older` was issued in the iteration before, at position -1.
    """

    call: OpCall
    groups: tuple[int, ...]
    position: int
    is_older: bool = False

    @property
    def result(self) -> ir.Var:
        """C."""
        return self.call.region("c").source

    @property
    def registers(self) -> set[ir.Var]:
        """The fragments that nothing may touch meanwhile."""
        left = self.call.region("a").source
        return {self.result, left} if regions.scope(left) == regions.FRAGMENT else {self.result}

    @property
    def memory(self) -> set[ir.Var]:
        """The shared tiles that nothing may write meanwhile."""
        return {self.call.region(side).source for side in "ab"} - self.registers


class Consumer:
    """The loop as the block runs it.

    `overlaps(stmt)`: whether a statement is a product that runs beside the threads that issue it. Such a product is
    waited for where something first touches its fragments, and its stages are given back then. Where the next iteration
    issues another product before, it stays in flight until then, so that the tensor cores have work at every moment.
    Of a loop with several products ptxas must know that it `runs`, at least once: else the registers of what is in
    flight come from two places behind it, and it lets no product stay in flight (C7515).
    """

    def __init__(
        self,
        pipeline: Pipeline,
        ring: Ring,
        thread: ir.Var,
        overlaps: Callable[[S.Stmt], bool],
        cluster: Cluster | None = None,
        *,
        runs: bool = False,
        void: frozenset[int] = frozenset(),
    ) -> None:
        self._pipeline, self._ring, self._thread, self._overlaps = pipeline, ring, thread, overlaps
        self._cluster, self._runs, self._void = cluster, runs, void
        self._statements = statements_of(pipeline.loop)
        self._at = _position(pipeline, ring.counter)
        self._copied = {copy.target for copy in pipeline.copies}

    def loop(self) -> S.Stmt:
        """The loop, and what ends it; before it the first iteration, where that does without a product."""
        loop = self._pipeline.loop
        lasting = self._lasting(self._walk([])[1])
        stmts, left = self._walk([replace(flight, position=-1, is_older=True) for flight in lasting])
        stmts += self._landed(left, len(left) - len(lasting), len(self._statements))
        before = [foreign(assume(E.GT(loop.extent, E.IntImm(loop.extent.ty, 0))))] if lasting and self._runs else []
        if self._void and not lasting:
            return self._without_void(stmts)
        annotations = {key: value for key, value in loop.annotations.items() if key != NUM_STAGES}
        body = visit.sequence([*self._at.head, *stmts, *self._at.tail], loop.body.span)
        rebuilt = rebuild.loop(loop, body=body, annotations=annotations)
        return visit.sequence([*before, rebuilt, *self._settled(lasting)], loop.span)

    def _without_void(self, stmts: list[S.Stmt]) -> S.Stmt:
        """The first iteration without its void products, and the loop over the others, which are `stmts`."""
        loop, one = self._pipeline.loop, E.IntImm(self._pipeline.loop.extent.ty, 1)
        first, left = self._walk([], self._void)
        first += self._landed(left, len(left), len(self._statements))
        annotations = {key: value for key, value in loop.annotations.items() if key != NUM_STAGES}
        body = visit.sequence([*self._at.head, *stmts, *self._at.tail], loop.body.span)
        rest = rebuild.loop(loop, body=body, annotations=annotations, min=loop.min + one, extent=loop.extent - one)
        before = visit.sequence([*self._at.head, *first, *self._at.tail], loop.body.span)
        return visit.sequence([renewed(substitute(before, {loop.loop_var: loop.min})), rest], loop.span)

    def _walk(
        self, flights: list[_Flight], without: frozenset[int] = frozenset()
    ) -> tuple[list[S.Stmt], list[_Flight]]:
        """An iteration that begins with `flights`, the oldest first, and those that are left at its end.

        The products at the positions `without` are not made.
        """
        stmts: list[S.Stmt] = []
        for position, stmt in enumerate(self._statements):
            stmts += [self._wait(number) for number, _group in self._groups("first", position)]
            if self._is_copy(stmt):
                continue
            groups = tuple(number for number, _group in self._groups("last", position))
            if position in without:
                stmts += [_together(), *(self._release(number, self._at.stage) for number in groups)]
                continue
            stmts += self._landed(flights, self._needed(flights, stmt), position)
            if self._overlaps(stmt):
                flight = _Flight(_call(stmt), groups, position)
                started = replace(flight.call, attrs={**flight.call.attrs, IN_FLIGHT: 1})
                stmts.append(at_stage(started.to_stmt(), self._ring.tiles, self._at.stage))
                flights.append(flight)
                continue
            stmts.append(at_stage(stmt, self._ring.tiles, self._at.stage))
            stmts += self._read_by_all(groups)
        return stmts, flights

    def _lasting(self, left: list[_Flight]) -> list[_Flight]:
        """Those of the flights left at the end of an iteration, the last ones, that the next one begins with."""
        found: list[_Flight] = []
        if not self._runs and sum(map(self._overlaps, self._statements)) > 1:
            return found
        for flight in left[::-1]:
            if not self._lasts(flight):
                break
            found.insert(0, flight)
        return found

    def _lasts(self, flight: _Flight) -> bool:
        """Whether the next iteration issues a product before it touches what this one uses."""
        inside = {alloc.buffer for alloc in visit.collect(self._pipeline.loop.body, S.AllocBuffer)}
        if self._pipeline.stages < 2 or flight.registers & inside or not flight.memory <= self._copied:
            return False
        for stmt in self._statements:
            if self._needed([flight], stmt):
                return False
            if self._overlaps(stmt):
                return True
        return False

    def _needed(self, flights: list[_Flight], stmt: S.Stmt) -> int:
        """How many of the oldest flights `stmt` has to wait for."""
        used = touched(stmt)
        product = _call(stmt) if self._overlaps(stmt) else None
        found = 0
        for number, flight in enumerate(flights, 1):
            fragments, tiles = set(flight.registers), flight.memory - self._copied
            if product is not None:
                # Products are made in the order of their issue: they may share a result, and what they only read.
                tiles = set()
                fragments -= {product.region("c").source} if product.region("c").source == flight.result else set()
            if used & (fragments | tiles):
                found = number
        return found

    def _landed(self, flights: list[_Flight], count: int, position: int) -> list[S.Stmt]:
        """Wait for the `count` oldest flights and give back what they read; they leave the list."""
        done = flights[:count]
        del flights[:count]
        if not done:
            return []
        found = self._held(done[-1].position, position)
        found += _waited(done, flights, self._pipeline.loop.span)
        return found + [self._given_back(number, flight.is_older) for flight in done for number in flight.groups]

    def _held(self, issued: int, position: int) -> list[S.Stmt]:
        """What keeps a wait behind the reductions, or else the loops, that were to run beside the product."""
        between = self._statements[issued + 1 : position][::-1]
        reduced = [_call(stmt).region("dst").source for stmt in between if op_name(stmt) == "tile.reduce"]
        computed = [
            store.buffer for stmt in between if is_parallel(stmt) for store in visit.collect(stmt, S.BufferStore)
        ]
        for result in (*reduced, *computed):
            if regions.scope(result) == regions.FRAGMENT and str(result.dtype) == "float32":
                return [S.AttrStmt(result, HOLD, int32(1), visit.sequence([]))]
        return []

    def _given_back(self, number: int, of_step_before: bool) -> S.Stmt:
        if not of_step_before:
            return self._release(number, self._at.stage)
        loop = self._pipeline.loop
        return S.IfThenElse(E.GT(loop.loop_var, loop.min), self._release(number, self._at.before), None)

    def _settled(self, flights: list[_Flight]) -> list[S.Stmt]:
        """Behind the loop: wait for what is in flight, and give the last stages back where the loop is repeated.

        The wait is never under a condition: ptxas would let no product stay in flight (C7518).
        """
        loop = self._pipeline.loop
        count = regions.constant(loop.extent)
        if not flights or (count is not None and count <= 0):
            return []
        waits = _waited(flights, [], loop.span)
        if not self._pipeline.is_repeated:
            return waits
        turn, each = self._pipeline.turn, _as_int32(loop.extent)
        done = tirx.BufferLoad(self._ring.counter, [int32(0)]) if turn is None else turn * each + each
        last = tirx.floormod(done - 1, int32(self._pipeline.stages))
        releases = [self._release(number, last) for flight in flights for number in flight.groups]
        if count is not None:
            return [*waits, *releases]
        runs = E.GT(loop.extent, E.IntImm(loop.extent.ty, 0))
        return [*waits, S.IfThenElse(runs, visit.sequence(releases), None, loop.span)]

    def _groups(self, end: str, position: int) -> list[tuple[int, CopyGroup]]:
        return [
            (number, group) for number, group in enumerate(self._pipeline.groups) if getattr(group, end) == position
        ]

    def _is_copy(self, stmt: S.Stmt) -> bool:
        return op_name(stmt) == "tile.copy" and _call(stmt).region("dst").source in self._copied

    def _wait(self, number: int) -> S.Stmt:
        return foreign(mbarrier_wait(barrier_at(self._ring.full[number], self._at.stage), self._at.phase))

    def _read_by_all(self, groups: tuple[int, ...]) -> list[S.Stmt]:
        """Give stages back once every lane of a warp has read them."""
        if not groups:
            return []
        return [*_have_read(), *(self._release(number, self._at.stage) for number in groups)]

    def _release(self, number: int, stage: ir.Expr) -> S.Stmt:
        """One lane of each warp says that the warp is done, to every block that fills the stage."""
        empty = barrier_at(self._ring.empty[number], stage)
        if self._cluster is not None and self._pipeline.groups[number].blocks > 1:
            return S.AttrStmt(int32(0), FOREIGN, int32(0), self._cluster.arrivals(empty, self._thread))
        return _arrival_of_a_warp(empty, self._thread)


class Producer:
    """The loop as the copying thread runs it."""

    def __init__(
        self, pipeline: Pipeline, ring: Ring, maps: Mapping[ir.Var, ir.Var], cluster: Cluster | None = None
    ) -> None:
        self._pipeline, self._ring, self._maps, self._cluster = pipeline, ring, maps, cluster

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


def _waited(done: list[_Flight], left: list[_Flight], span: ir.Span | None) -> list[S.Stmt]:
    """Wait for all but the flights `left`; nobody may touch a result that one of those still adds to."""
    open_results = {flight.result for flight in left}
    results = [result for result in dict.fromkeys(flight.result for flight in done) if result not in open_results]
    if not results:
        return [foreign(wgmma_wait(len(left)))]
    return [S.AttrStmt(result, SETTLE, int32(len(left)), visit.sequence([]), span) for result in results]


def _have_read() -> list[S.Stmt]:
    """What the lanes of a warp have loaded is in their registers, before an engine may write there.

    An arrival alone does not say so: it may overtake loads, and engines see memory by another proxy (PTX ISA, "Async
    proxy").
    """
    return [foreign(fence_async()), _together()]


def _together() -> S.Stmt:
    """The lanes of a warp wait for each other."""
    return foreign(ir.Call(tile_op("tile.thread.sync_warp"), [], ret_ty="void"))


def _arrival_of_a_warp(barrier: ir.Expr, thread: ir.Var) -> S.Stmt:
    first = E.EQ(tirx.floormod(thread, int32(WARP)), int32(0))
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(first, S.Evaluate(mbarrier_arrive(barrier)), None))


def foreign(call: ir.Expr) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(call))


def _call(stmt: S.Stmt) -> OpCall:
    from tile_core.ops import OPS

    return view(stmt, OPS)
