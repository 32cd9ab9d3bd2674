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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.runtime import PassConfigError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.descriptors import named
from tile_core.ir.marks import SAFE_VALUE
from tile_core.ir.renew import renewed
from tile_core.ir.uses import Uses, uses
from tile_core.ir.views import view_roots, viewed
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.base import PassContext
from tile_core.passes.matrix import PRODUCTS, MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN
from tile_core.passes.swizzle_tiles import TILES
from tile_core.passes.thread_scope import ALIGNED, int32
from tile_cuda.instructions.tensor_map import tensor_map_fits
from tile_cuda.matrix.product import Product
from tile_cuda.matrix.warp import WARPGROUP
from tile_cuda.matrix.wgmma import WarpgroupProduct
from tile_cuda.passes.alternating_tiles import alternating
from tile_cuda.passes.cache_hints import with_hints
from tile_cuda.passes.consumer import Consumer
from tile_cuda.passes.first_products import begun_by_products
from tile_cuda.passes.index_facts import index_facts
from tile_cuda.passes.lower_asynchrony import is_scheduled
from tile_cuda.passes.operand_sources import operand_sources
from tile_cuda.passes.pipelines import (
    TURNS,
    Pipeline,
    Preload,
    find_pipelines,
    find_preloads,
    is_plain,
    released_by_warpgroups,
    shared_among,
    written,
)
from tile_cuda.passes.producer import producer_program
from tile_cuda.passes.ring import (
    Arrival,
    Producer,
    Ring,
    allocations,
    arrival_of,
    ring_of,
)
from tile_cuda.passes.schedule_tiles import OPTION as PERSISTENT
from tile_cuda.passes.schedule_tiles import PAIR, Schedule, choose, fills_a_multiprocessor, turns_around
from tile_cuda.passes.schedule_tiles import TURNS as SCHEDULED
from tile_cuda.passes.sharing import Cluster, cluster_of
from tile_cuda.passes.take_tiles import handover
from tile_cuda.passes.tensor_copies import TensorCopy, address, begins_at_unit, fits, never_fits, touched
from tile_cuda.passes.void_products import void_at_first
from tile_cuda.passes.walk_tiles import EACH, Walk, choose_walk, copying, varies, walked

OPTION = "tile.specialize_warps"
MOST_THREADS = 384


@dataclass(frozen=True)
class SpecializeWarps:
    """`tile.specialize_warps` (default true) switches it off.

    `tile.persistent` is how many blocks walk over tiles at a time; true is as many as fill the device, where that pays,
    false keeps one block a tile.

    Raises:
        PassConfigError: `tile.persistent` is something else.
    """

    name: ClassVar[str] = "specialize_warps"
    options: ClassVar[tuple[str, ...]] = (OPTION, PERSISTENT)
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report gets `specialized_warps`, the number of launches."""
        context.report["specialized_warps"] = 0
        context.report["shared_by_clusters"] = []
        context.report["persistent_blocks"] = []
        if not context.options.get(OPTION, True) or not _has_accelerator(context.capabilities):
            return func
        padded = {attr.node for attr in visit.collect(func.body, S.AttrStmt) if attr.attr_key == SAFE_VALUE}
        workspaces = {alloc.buffer for alloc in visit.collect(func.body, S.AllocBuffer) if _is_workspace(alloc.buffer)}
        tensors = frozenset(func.params) - padded | workspaces
        roots = view_roots(func.body)

        def specialize(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            found = _Specializer(launch, tensors, written(launch, roots), self.units, context).result()
            context.report["specialized_warps"] += found is not None
            return loop if found is None else found

        return func.with_body(visit.mutate(func.body, (S.For, specialize)), func.span)


def _is_workspace(buffer: ir.Var) -> bool:
    return regions.scope(buffer) == regions.GLOBAL


def _has_accelerator(capabilities: Any) -> bool:
    return "cp.async.bulk.tensor" in capabilities.fact("async_copy", [])


class _Specializer:
    def __init__(
        self,
        launch: launch_ir.Launch,
        tensors: frozenset[ir.Var],
        changed: frozenset[ir.Var],
        units: MatrixUnits,
        context: PassContext,
    ) -> None:
        self._original, self._parameters, self._tensors, self._context = launch, tensors - changed, tensors, context
        self._multiplier = Multiplier(units, prod(launch.threads), context.capabilities)
        self._take(launch)

    def _take(self, launch: launch_ir.Launch) -> launch_ir.Launch:
        """Work on `launch` from here on."""
        self._found: list[Pipeline] | None = None
        views = visit.collect(launch.body, S.DeclBuffer)
        self._elsewhere = frozenset(declared.buffer for declared in views).union(*map(viewed, views))
        self._facts = index_facts(launch)
        return launch

    def result(self) -> S.Stmt | None:
        """The specialised launch beside the original one; `None` where nothing is to be specialised."""
        threads = self._original.threads
        if threads[1:] != (1, 1) or threads[0] % WARPGROUP or threads[0] + WARPGROUP > MOST_THREADS:
            return None
        if is_scheduled(self._original.body) or not is_plain(self._original) or not self._has_copies():
            return None
        launch = self._take(launch_ir.from_stmt(renewed(self._original.to_stmt())))
        launch, cluster, walkers = self._repeated(launch)
        begun = begun_by_products(launch, self._pipelines(launch), self._overlaps)
        launch = launch if begun is launch else self._take(begun)
        pipelines = [_shared(_turned(pipeline, launch), launch, cluster) for pipeline in self._pipelines(launch)]
        cache = int(self._context.capabilities.fact("cache_bytes"))
        pipelines = [self._released(pipeline, launch) for pipeline in pipelines]
        pipelines = with_hints(pipelines, launch, self._facts, cache)
        preloads = find_preloads(launch, self._parameters, self._tiles(launch), self._suits)
        staged = [ring_of(pipeline, number) for number, pipeline in enumerate(pipelines)]
        arrived = {
            preload.copy.target: arrival_of(preload, is_loaded=self._is_loaded(preload, launch)) for preload in preloads
        }
        copies = [*_copies(pipelines), *(preload.copy for preload in preloads)]
        maps = {copy.target: named(f"{copy.tensor.name}_map") for copy in copies}
        producer = producer_program(
            launch.body,
            {
                pipeline.loop: Producer(pipeline, ring, maps, cluster).loop
                for pipeline, ring in zip(pipelines, staged, strict=True)
            }
            | {arrival.preload.stmt: partial(_load, arrival, maps) for arrival in arrived.values()},
            readable=frozenset(ring.counter for ring in staged) | self._parameters,
            threads=frozenset(launch.thread_vars),
        )
        if producer is None:
            return None
        self._context.report["persistent_blocks"] += walkers
        shared = [str(copy.target.name) for copy in copies if copy.parts > 1]
        self._context.report["shared_by_clusters"] += shared
        for pipeline, ring in zip(pipelines, staged, strict=True):
            for copy in pipeline.copies:
                if copy.tile is not None:
                    self._context.state.setdefault(TILES, {})[ring.tiles[copy.target]] = copy.tile
        counters = [
            stmt
            for pipeline, ring in zip(pipelines, staged, strict=True)
            if pipeline.is_counted
            for stmt in (S.AllocBuffer(ring.counter), S.BufferStore(ring.counter, int32(0), [int32(0)]))
        ]
        for preload in preloads:
            if preload.copy.tile is not None:
                self._context.state.setdefault(TILES, {})[preload.copy.target] = preload.copy.tile
        consumer = visit.sequence([*counters, self._consumer(launch, pipelines, staged, arrived, cluster)])
        producer = copying(renewed(visit.sequence([*counters, producer])))
        head = [
            alloc for pipeline, ring in zip(pipelines, staged, strict=True) for alloc in allocations(pipeline, ring)
        ]
        head += [alloc for arrival in arrived.values() for alloc in arrival.allocations()]
        head += handover().allocations() if launch.options.get(EACH) == 0 else []
        foreign = S.AttrStmt(int32(0), FOREIGN, int32(1), producer, launch.span)
        others = self._other_tensors(copies)
        aligned = [S.AttrStmt(tensor, ALIGNED, int32(1), visit.sequence([])) for tensor in others]
        body = visit.sequence([*aligned, *head, consumer, foreign], launch.span)
        return self._versions(replace(launch, body=body), copies, others, maps)

    def _repeated(self, launch: launch_ir.Launch) -> tuple[launch_ir.Launch, Cluster | None, list[int]]:
        """The launch with its body in a loop where few blocks walk over its tiles, its cluster, and how many walk."""
        schedule = self._schedule(launch)
        if schedule is not None:
            pair = schedule.cluster(launch)
            return self._take(turns_around(launch, schedule)), pair, [PAIR * schedule.clusters]
        cluster = cluster_of(launch)
        walk = self._walk(launch) if cluster is None else None
        return (launch, cluster, []) if walk is None else (self._take(walked(launch, walk)), None, [walk.blocks])

    def _schedule(self, launch: launch_ir.Launch) -> Schedule | None:
        """How few blocks walk over the tiles of a launch."""
        option = self._context.options.get(PERSISTENT, True)
        if not isinstance(option, int) or option < 0:
            raise PassConfigError(
                f"the pass config {PERSISTENT} is {option!r}",
                remedy="give a number of blocks; True for as many as fill the device, False for one block a tile",
            )
        pipelines, facts = self._pipelines(launch), self._context.capabilities
        if option is not True:
            return choose(launch, pipelines, self._overlaps, int(option))
        if not fills_a_multiprocessor(launch, pipelines, facts):
            return None
        return choose(launch, pipelines, self._overlaps, int(facts.fact("multiprocessors")))

    def _walk(self, launch: launch_ir.Launch) -> Walk | None:
        """How few blocks walk over tiles that may differ in length."""
        option, facts = self._context.options.get(PERSISTENT, True), self._context.capabilities
        pipelines = self._pipelines(launch)
        if option is True and not fills_a_multiprocessor(launch, pipelines, facts):
            return None
        blocks = int(facts.fact("multiprocessors")) if option is True else int(option)
        return choose_walk(launch, pipelines, self._overlaps, blocks, int(facts.shared_bytes or 0))

    def _has_copies(self) -> bool:
        """Whether there are copies to make ahead, and the host may find that their tensors suit the accelerator."""
        copies = _copies(self._pipelines(self._original))
        return bool(copies) and not any(map(never_fits, copies))

    def _pipelines(self, launch: launch_ir.Launch) -> list[Pipeline]:
        """Those of the launch that was taken last."""
        if self._found is None:
            self._found = find_pipelines(launch, self._parameters, self._tiles(launch), self._suits)
        return self._found

    def _suits(self, copy: TensorCopy) -> bool:
        """Whether the accelerator makes a copy, wherever it begins."""
        return fits(copy) and begins_at_unit(copy, self._facts)

    def _tiles(self, launch: launch_ir.Launch) -> Mapping[ir.Var, SwizzledTile]:
        """The shared tiles that matrix instructions will read, themselves or what they are computed from."""
        found: dict[ir.Var, SwizzledTile] = {}
        for stmt in visit.collect(launch.body, S.Evaluate):
            if op_name(stmt) in PRODUCTS:
                product = self._multiplier.of(view(stmt, OPS), self._elsewhere)
                if isinstance(product, Product):
                    sources = operand_sources(product, launch.body)
                    kept = {tile: order for tile, order in sources.items() if tile not in self._elsewhere}
                    found.update({**kept, **product.tiles})
        return found

    def _consumer(
        self,
        launch: launch_ir.Launch,
        pipelines: list[Pipeline],
        staged: list[Ring],
        arrived: Mapping[ir.Var, Arrival],
        cluster: Cluster | None,
    ) -> S.Stmt:
        gone = {copy.target for copy in _copies(pipelines)} | set(arrived)
        thread = launch.thread_vars[0]
        room = int(self._context.capabilities.shared_bytes or 0)
        versions = alternating(launch, pipelines, self._overlaps, room)

        def loop(node: S.For, mutator: Any) -> S.Stmt:
            for pipeline, ring in zip(pipelines, staged, strict=True):
                if node.same_as(pipeline.loop):
                    runs = self._facts.can_prove(E.GT(node.extent, E.IntImm(node.extent.ty, 0)))
                    void = void_at_first(launch, pipeline) if runs else frozenset()
                    own = Consumer(
                        pipeline, ring, thread, self._overlaps, cluster, runs=runs, void=void, versions=versions
                    )
                    return own.loop()
            return mutator.default_mutate(node)

        def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
            if node.buffer in versions:
                return S.AllocBuffer(versions[node.buffer], annotations=node.annotations, span=node.span)
            return visit.sequence([]) if node.buffer in gone else node

        def sequence(node: S.SeqStmt, mutator: Any) -> S.Stmt:
            stmts: list[S.Stmt] = []
            for part in node.seq:
                waits = [arrival.wait() for arrival in arrived.values() if part.same_as(arrival.preload.stmt)]
                stmts += waits or [mutator.mutate(part)]
                for arrival in arrived.values():
                    stmts += arrival.release(thread) if part.same_as(arrival.preload.last) else []
            return visit.sequence(stmts, node.span)

        return visit.mutate(launch.body, (S.For, loop), (S.AllocBuffer, allocate), (S.SeqStmt, sequence))

    def _released(self, pipeline: Pipeline, launch: launch_ir.Launch) -> Pipeline:
        """The pipeline with who gives its stages back: without a product in some iteration warps may be far apart."""
        if void_at_first(launch, pipeline):
            return pipeline
        return released_by_warpgroups(pipeline, self._overlaps)

    def _overlaps(self, stmt: S.Stmt) -> bool:
        """Whether a statement is a product of warpgroups, which runs beside them."""
        if op_name(stmt) != "tile.gemm":
            return False
        return isinstance(self._multiplier.of(view(stmt, OPS), self._elsewhere), WarpgroupProduct)

    def _is_loaded(self, preload: Preload, launch: launch_ir.Launch) -> bool:
        """Whether anything but its copy and products of warpgroups uses the tile of a preload."""
        tile = preload.copy.target
        known = [preload.stmt, *filter(self._overlaps, visit.collect(launch.body, S.Evaluate))]
        return uses(tile, launch.body) != Uses(operands=sum(uses(tile, stmt).operands for stmt in known))

    def _other_tensors(self, copies: list[TensorCopy]) -> list[ir.Var]:
        """The tensors that the block's threads access themselves."""
        used = touched(self._original.body) & self._tensors
        return sorted(used - {copy.tensor for copy in copies}, key=lambda tensor: str(tensor.name))

    def _versions(
        self,
        launch: launch_ir.Launch,
        copies: list[TensorCopy],
        others: list[ir.Var],
        maps: Mapping[ir.Var, ir.Var],
    ) -> S.Stmt:
        """On the host: the maps and the specialised launch where the tensors fit, else the original one."""
        tests = [tensor_map_fits(address(copy.tensor), *copy.byte_strides()) for copy in copies]
        tests += [tensor_map_fits(address(tensor)) for tensor in others]
        binds = [S.Bind(maps[copy.target], copy.map(), launch.span) for copy in copies]
        fast = visit.sequence([*binds, launch.to_stmt()], launch.span)
        spare = replace(self._original, is_spare=True)
        return S.IfThenElse(reduce(E.And, tests), fast, spare.to_stmt(), launch.span)


def _turned(pipeline: Pipeline, launch: launch_ir.Launch) -> Pipeline:
    """The pipeline with the turn that repeats it, where all turns are equally long."""
    body = launch.body
    is_turn = isinstance(body, S.For) and any(key in body.annotations for key in (SCHEDULED, TURNS))
    repeats = is_turn and pipeline.is_repeated and not varies(launch, pipeline.loop)
    return replace(pipeline, turn=body.loop_var if repeats else None)


def _load(arrival: Arrival, maps: Mapping[ir.Var, ir.Var], _stmt: S.Stmt) -> S.Stmt:
    return arrival.load(maps)


def _shared(pipeline: Pipeline, launch: launch_ir.Launch, cluster: Cluster | None) -> Pipeline:
    """The pipeline as the blocks of a cluster feed it together."""
    if cluster is None:
        return pipeline
    return shared_among(pipeline, cluster.size, cluster.shares(launch, pipeline))


def _copies(pipelines: list[Pipeline]) -> list[TensorCopy]:
    return [copy for pipeline in pipelines for copy in pipeline.copies]
