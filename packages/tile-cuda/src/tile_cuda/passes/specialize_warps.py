"""Copies of pipelined loops are made ahead of time by a warpgroup of its own.

For every launch with a loop of `T.Pipelined` whose copies the tensor memory accelerator can make (`pipelines.py`), the
block gets a second program: one thread that walks the same loops and issues the copies, as far ahead as there are
stages. Each stage of a group of tiles has two barriers. `full` counts the bytes that have arrived; the block waits for
it before the first statement that reads the tiles. `empty` counts the warps that are done with them; the copying thread
waits for it before it fills the stage again. Everything else stays the block's program.

Tensors whose address or strides are no multiples of 16 bytes cannot be described to the accelerator. The host asks, and
launches the program as it was for those: the results are the same.

Runs on tile ops, before they are lowered; `assign_roles` later gives both programs their threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.descriptors import named
from tile_core.ir.renew import renewed
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops.base import op_name, view
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import SAFE_VALUE
from tile_core.passes.matrix import MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, ONCE
from tile_core.passes.swizzle_tiles import ALIGNMENT, TILES
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import mbarrier_arrive, mbarrier_expect, mbarrier_wait
from tile_cuda.instructions.tensor_map import tensor_map_fits
from tile_cuda.instructions.tma import tma_load
from tile_cuda.passes.assign_roles import ARRIVALS
from tile_cuda.passes.pipelines import (
    NUM_STAGES,
    CopyGroup,
    Pipeline,
    Preload,
    find_pipelines,
    find_preloads,
    statements_of,
)
from tile_cuda.passes.producer import producer_program
from tile_cuda.passes.tensor_copies import TensorCopy, address

OPTION = "tile.specialize_warps"
WARP, WARPGROUP = 32, 128
MOST_THREADS = 384


@dataclass(frozen=True)
class SpecializeWarps:
    """`tile.specialize_warps` (default true) switches it off."""

    name: ClassVar[str] = "specialize_warps"
    options: ClassVar[tuple[str, ...]] = (OPTION,)
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report gets `specialized_warps`, the number of launches."""
        context.report["specialized_warps"] = 0
        if not context.options.get(OPTION, True) or not _has_accelerator(context.capabilities):
            return func
        padded = {attr.node for attr in visit.collect(func.body, S.AttrStmt) if attr.attr_key == SAFE_VALUE}
        parameters = frozenset(func.params) - padded

        def specialize(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            found = _Specializer(launch_ir.from_stmt(loop), parameters, self.units, context).result()
            context.report["specialized_warps"] += found is not None
            return loop if found is None else found

        return func.with_body(visit.mutate(func.body, (S.For, specialize)), func.span)


def _has_accelerator(capabilities: Any) -> bool:
    return "cp.async.bulk.tensor" in capabilities.fact("async_copy", [])


@dataclass(frozen=True)
class Staged:
    """The storage of one pipeline: a tile with stages for each copy, two barriers a stage for each group.

    `counter` counts iterations where another loop repeats the pipeline; each program has its own.
    """

    tiles: Mapping[ir.Var, ir.Var]
    full: tuple[ir.Var, ...]
    empty: tuple[ir.Var, ...]
    counter: ir.Var


class _Specializer:
    def __init__(
        self, launch: launch_ir.Launch, parameters: frozenset[ir.Var], units: MatrixUnits, context: PassContext
    ) -> None:
        self._original, self._parameters, self._units, self._context = launch, parameters, units, context

    def result(self) -> S.Stmt | None:
        """The specialised launch beside the original one; `None` where nothing is to be specialised."""
        threads = self._original.threads
        if threads[1:] != (1, 1) or threads[0] % WARPGROUP or threads[0] + WARPGROUP > MOST_THREADS:
            return None
        if not self._pipelines(self._original):
            return None
        launch = launch_ir.from_stmt(renewed(self._original.to_stmt()))
        pipelines = self._pipelines(launch)
        preloads = find_preloads(launch, self._parameters, self._tiles(launch))
        staged = [_storage(pipeline, number) for number, pipeline in enumerate(pipelines)]
        arrived = {preload.copy.target: _arrival(preload) for preload in preloads}
        copies = [*_copies(pipelines), *(preload.copy for preload in preloads)]
        maps = {copy.target: named(f"{copy.source.source.name}_map") for copy in copies}
        producer = producer_program(
            launch.body,
            {
                pipeline.loop: _Producer(pipeline, storage, maps).loop
                for pipeline, storage in zip(pipelines, staged, strict=True)
            }
            | {preload.stmt: _preloader(preload, arrived[preload.copy.target], maps) for preload in preloads},
        )
        if producer is None:
            return None
        for pipeline, storage in zip(pipelines, staged, strict=True):
            for copy in pipeline.copies:
                if copy.tile is not None:
                    self._context.state.setdefault(TILES, {})[storage.tiles[copy.target]] = copy.tile
        counters = [
            stmt
            for pipeline, storage in zip(pipelines, staged, strict=True)
            if pipeline.is_repeated
            for stmt in (S.AllocBuffer(storage.counter), S.BufferStore(storage.counter, int32(0), [int32(0)]))
        ]
        for preload in preloads:
            if preload.copy.tile is not None:
                self._context.state.setdefault(TILES, {})[preload.copy.target] = preload.copy.tile
        consumer = visit.sequence([*counters, self._consumer(launch, pipelines, staged, preloads, arrived)])
        producer = renewed(visit.sequence([*counters, producer]))
        head = [
            alloc for pipeline, storage in zip(pipelines, staged, strict=True) for alloc in _allocs(pipeline, storage)
        ]
        for preload in preloads:
            head.append(S.AllocBuffer(preload.copy.target, {ASYNCHRONOUS: ONCE}))
            head.append(S.AllocBuffer(arrived[preload.copy.target], {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full"}))
        foreign = S.AttrStmt(int32(0), FOREIGN, int32(1), producer, launch.span)
        body = visit.sequence([*head, consumer, foreign], launch.span)
        return self._versions(replace(launch, body=body), copies, maps)

    def _pipelines(self, launch: launch_ir.Launch) -> list[Pipeline]:
        return find_pipelines(launch, self._parameters, self._tiles(launch))

    def _tiles(self, launch: launch_ir.Launch) -> Mapping[ir.Var, SwizzledTile]:
        """The shared tiles that matrix instructions will read."""
        from tile_core.ops import OPS

        views = visit.collect(launch.body, S.DeclBuffer)
        elsewhere = frozenset(declared.buffer for declared in views).union(*map(viewed, views))
        multiplier = Multiplier(self._units, prod(launch.threads), self._context.capabilities)
        found: dict[ir.Var, SwizzledTile] = {}
        for stmt in visit.collect(launch.body, S.Evaluate):
            if op_name(stmt) == "tile.gemm":
                product = multiplier.of(view(stmt, OPS), elsewhere)
                found.update({} if product is None else product.tiles)
        return found

    def _consumer(
        self,
        launch: launch_ir.Launch,
        pipelines: list[Pipeline],
        staged: list[Staged],
        preloads: list[Preload],
        arrived: Mapping[ir.Var, ir.Var],
    ) -> S.Stmt:
        gone = {copy.target for copy in _copies(pipelines)} | set(arrived)
        thread = launch.thread_vars[0]

        def loop(node: S.For, mutator: Any) -> S.Stmt:
            for pipeline, storage in zip(pipelines, staged, strict=True):
                if node.same_as(pipeline.loop):
                    return _Consumer(pipeline, storage, thread).loop()
            return mutator.default_mutate(node)

        def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
            return visit.sequence([]) if node.buffer in gone else node

        def evaluate(node: S.Evaluate, _mutator: Any) -> S.Stmt:
            for preload in preloads:
                if node.same_as(preload.stmt):
                    return _foreign(mbarrier_wait(_barrier(arrived[preload.copy.target], int32(0)), int32(0)))
            return node

        return visit.mutate(launch.body, (S.For, loop), (S.AllocBuffer, allocate), (S.Evaluate, evaluate))

    def _versions(self, launch: launch_ir.Launch, copies: list[TensorCopy], maps: Mapping[ir.Var, ir.Var]) -> S.Stmt:
        """On the host: the maps and the specialised launch where the tensors fit, else the original one."""
        tests = [tensor_map_fits(address(copy.source.source), *copy.byte_strides()) for copy in copies]
        binds = [S.Bind(maps[copy.target], copy.map(), launch.span) for copy in copies]
        fast = visit.sequence([*binds, launch.to_stmt()], launch.span)
        return S.IfThenElse(reduce(E.And, tests), fast, self._original.to_stmt(), launch.span)


def _copies(pipelines: list[Pipeline]) -> list[TensorCopy]:
    return [copy for pipeline in pipelines for copy in pipeline.copies]


def _storage(pipeline: Pipeline, number: int) -> Staged:
    def tile(buffer: ir.Var) -> ir.Var:
        shape = [int32(pipeline.stages), *buffer.shape]
        scope = regions.scope(buffer)
        return tirx.decl_buffer(shape, str(buffer.dtype), str(buffer.name), scope=scope, data_alignment=ALIGNMENT)

    def barriers(word: str, group: int) -> ir.Var:
        name = f"{word}_{number}{group}" if number or group else word
        return tirx.decl_buffer((pipeline.stages,), "uint64", name, scope=regions.SHARED[0])

    return Staged(
        tiles={copy.target: tile(copy.target) for copy in pipeline.copies},
        full=tuple(barriers("full", group) for group in range(len(pipeline.groups))),
        empty=tuple(barriers("empty", group) for group in range(len(pipeline.groups))),
        counter=tirx.decl_buffer((1,), "int32", "iteration", scope=regions.VAR),
    )


def _arrival(preload: Preload) -> ir.Var:
    name = f"{preload.copy.target.name}_full"
    return tirx.decl_buffer((1,), "uint64", name, scope=regions.SHARED[0])


def _preloader(preload: Preload, full: ir.Var, maps: Mapping[ir.Var, ir.Var]) -> Callable[[S.Stmt], S.Stmt]:
    copy, barrier = preload.copy, _barrier(full, int32(0))
    loads = _loads(copy, copy.target, [], maps[copy.target], barrier)
    return lambda _stmt: visit.sequence([S.Evaluate(mbarrier_expect(barrier, int32(copy.bytes))), *loads])


def _loads(copy: TensorCopy, tile: ir.Var, leading: list[ir.Expr], tensor: ir.Var, barrier: ir.Expr) -> list[S.Stmt]:
    """The instructions that fill one tile, strip by strip."""
    found: list[S.Stmt] = []
    for strip in range(copy.columns // copy.strip):
        place = tirx.address_of(tirx.BufferLoad(tile, [*leading, int32(0), int32(strip * copy.strip)]))
        found.append(S.Evaluate(tma_load(place, tensor, barrier, *copy.coordinates(strip)), copy.call.span))
    return found


def _allocs(pipeline: Pipeline, storage: Staged) -> list[S.Stmt]:
    kind = ALWAYS if pipeline.is_repeated else ONCE
    tiles = [S.AllocBuffer(storage.tiles[copy.target], {ASYNCHRONOUS: kind}) for copy in pipeline.copies]
    barriers = [
        S.AllocBuffer(buffer, {ASYNCHRONOUS: ALWAYS, ARRIVALS: word})
        for word, buffers in (("full", storage.full), ("empty", storage.empty))
        for buffer in buffers
    ]
    return [*tiles, *barriers]


@dataclass(frozen=True)
class _Position:
    """Where a program stands in the ring of stages: names bound at the start of an iteration, what ends it."""

    stage: ir.Var
    phase: ir.Var
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
    return _Position(stage, phase, head, tail)


def _barrier(buffer: ir.Var, stage: ir.Expr) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, [stage]))


class _Consumer:
    """The loop as the block runs it."""

    def __init__(self, pipeline: Pipeline, storage: Staged, thread: ir.Var) -> None:
        self._pipeline, self._storage, self._thread = pipeline, storage, thread

    def loop(self) -> S.Stmt:
        loop = self._pipeline.loop
        at = _position(self._pipeline, self._storage.counter)
        copied = {copy.call.region("dst").source for copy in self._pipeline.copies}
        stmts: list[S.Stmt] = list(at.head)
        for position, stmt in enumerate(statements_of(loop)):
            stmts += [self._wait(number, at) for number, group in self._groups("first", position)]
            if not self._is_copy(stmt, copied):
                stmts.append(self._staged(stmt, at.stage))
            stmts += [self._release(number, at) for number, group in self._groups("last", position)]
        annotations = {key: value for key, value in loop.annotations.items() if key != NUM_STAGES}
        body = visit.sequence([*stmts, *at.tail], loop.body.span)
        return rebuild.loop(loop, body=body, annotations=annotations)

    def _groups(self, end: str, position: int) -> list[tuple[int, CopyGroup]]:
        return [
            (number, group) for number, group in enumerate(self._pipeline.groups) if getattr(group, end) == position
        ]

    def _is_copy(self, stmt: S.Stmt, copied: set[ir.Var]) -> bool:
        from tile_core.ops import OPS

        return op_name(stmt) == "tile.copy" and view(stmt, OPS).region("dst").source in copied

    def _wait(self, number: int, at: _Position) -> S.Stmt:
        return _foreign(mbarrier_wait(_barrier(self._storage.full[number], at.stage), at.phase))

    def _release(self, number: int, at: _Position) -> S.Stmt:
        """One lane of each warp says that the warp is done."""
        first = E.EQ(tirx.floormod(self._thread, int32(WARP)), int32(0))
        arrive = S.Evaluate(mbarrier_arrive(_barrier(self._storage.empty[number], at.stage)))
        return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(first, arrive, None))

    def _staged(self, stmt: S.Stmt, stage: ir.Var) -> S.Stmt:
        """Accesses of the tiles at their stage."""
        tiles = self._storage.tiles

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


class _Producer:
    """The loop as the copying thread runs it."""

    def __init__(self, pipeline: Pipeline, storage: Staged, maps: Mapping[ir.Var, ir.Var]) -> None:
        self._pipeline, self._storage, self._maps = pipeline, storage, maps

    def loop(self, loop: S.For) -> S.Stmt:
        at = _position(self._pipeline, self._storage.counter)
        names = [stmt for stmt in statements_of(loop) if isinstance(stmt, S.Bind)]
        stmts: list[S.Stmt] = [*names, *at.head]
        for number, group in enumerate(self._pipeline.groups):
            stmts += self._fill(number, group, at)
        body = visit.sequence([*stmts, *at.tail], loop.span)
        return rebuild.loop(loop, body=body, annotations={})

    def _fill(self, number: int, group: CopyGroup, at: _Position) -> list[S.Stmt]:
        full = _barrier(self._storage.full[number], at.stage)
        empty = _barrier(self._storage.empty[number], at.stage)
        total = sum(copy.bytes for copy in group.copies)
        stmts: list[S.Stmt] = [
            S.Evaluate(mbarrier_wait(empty, E.Sub(int32(1), at.phase))),
            S.Evaluate(mbarrier_expect(full, int32(total))),
        ]
        for copy in group.copies:
            stmts += _loads(copy, self._storage.tiles[copy.target], [at.stage], self._maps[copy.target], full)
        return stmts


def _foreign(call: ir.Expr) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(call))
