"""A pipelined loop as the block runs it: waits for its ring's stages, products in flight, stages given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.marks import NUM_STAGES
from tile_core.ir.renew import renewed
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute
from tile_core.passes.matrix import HOLD, SETTLE
from tile_core.passes.nests import FOREIGN, is_parallel
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.compiler_hints import assume
from tile_cuda.instructions.mbarrier import mbarrier_wait
from tile_cuda.instructions.wgmma import wgmma_wait
from tile_cuda.passes.pipelines import CopyGroup, Pipeline, statements_of
from tile_cuda.passes.ring import (
    Ring,
    arrival,
    as_int32,
    at_stage,
    barrier_at,
    foreign,
    have_read,
    position_of,
    together,
)
from tile_cuda.passes.sharing import Cluster
from tile_cuda.passes.tensor_copies import touched

NO_VERSIONS: Mapping[ir.Var, ir.Var] = MappingProxyType({})


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

    `versions` are tiles that the block fills before a product reads them, each with the tile of two that stands for it:
    iterations take turns, so that one fills what the product of the one before does not read.

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
        versions: Mapping[ir.Var, ir.Var] = NO_VERSIONS,
    ) -> None:
        self._pipeline, self._ring, self._thread, self._overlaps = pipeline, ring, thread, overlaps
        self._cluster, self._runs, self._void, self._versions = cluster, runs, void, versions
        self._statements = statements_of(pipeline.loop)
        self._at = position_of(pipeline, ring.counter)
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
                stmts += [together(), *(self._release(number, self._at.stage) for number in groups)]
                continue
            stmts += self._landed(flights, self._needed(flights, stmt), position)
            if self._overlaps(stmt):
                flight = _Flight(_call(stmt), groups, position)
                started = replace(flight.call, attrs={**flight.call.attrs, IN_FLIGHT: 1})
                stmts.append(self._placed(started.to_stmt()))
                flights.append(flight)
                continue
            stmts.append(self._placed(stmt))
            stmts += self._read_by_all(groups)
        return stmts, flights

    def _placed(self, stmt: S.Stmt) -> S.Stmt:
        """A statement on the stages and versions of this iteration."""
        loop = self._pipeline.loop
        staged = at_stage(stmt, self._ring.tiles, self._at.stage)
        if not self._versions:
            return staged
        return at_stage(staged, self._versions, tirx.floormod(as_int32(loop.loop_var - loop.min), int32(2)))

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
        if (
            self._pipeline.stages < 2
            or flight.registers & inside
            or not flight.memory <= self._copied | self._versions.keys()
        ):
            return False
        older = replace(flight, is_older=True)
        for stmt in self._statements:
            if self._needed([older], stmt):
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
            tiles -= self._versions.keys() if flight.is_older else set()
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
        turn, each = self._pipeline.turn, as_int32(loop.extent)
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
        return [*have_read(), *(self._release(number, self._at.stage) for number in groups)]

    def _release(self, number: int, stage: ir.Expr) -> S.Stmt:
        """One of every unit of threads says that they are done, to every block that fills the stage."""
        empty, group = barrier_at(self._ring.empty[number], stage), self._pipeline.groups[number]
        if self._cluster is not None and group.blocks > 1:
            return S.AttrStmt(int32(0), FOREIGN, int32(0), self._cluster.arrivals(empty, self._thread, group.unit))
        return arrival(empty, self._thread, group.unit)


def _waited(done: list[_Flight], left: list[_Flight], span: ir.Span | None) -> list[S.Stmt]:
    """Wait for all but the flights `left`; nobody may touch a result that one of those still adds to."""
    open_results = {flight.result for flight in left}
    results = [result for result in dict.fromkeys(flight.result for flight in done) if result not in open_results]
    if not results:
        return [foreign(wgmma_wait(len(left)))]
    return [S.AttrStmt(result, SETTLE, int32(len(left)), visit.sequence([]), span) for result in results]


def _call(stmt: S.Stmt) -> OpCall:
    return view(stmt, OPS)
