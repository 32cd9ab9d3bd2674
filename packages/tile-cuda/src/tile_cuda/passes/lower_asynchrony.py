"""Barriers, tensor copies and roles that the author wrote become instructions of single threads.

Barriers go to shared memory that is theirs for the whole kernel; one thread initialises them before anything else.
What every thread does, arriving and waiting, stays where it is. A tensor copy is issued by the first thread of those
that come by, its tensor described on the host; those that use its tile themselves meet before it is filled again.
Before a store, what the threads have written is fenced off for the engine; after a wait for stores, their tiles may be
written again by any of them. Before an arrival stands a fence where threads load from tiles that the engine fills: what
they have loaded is theirs before another tile comes.

Runs on tile ops, before anything is divided among threads. Where a launch has such ops, `specialize_warps` leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import MissingLoweringError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.descriptors import named
from tile_core.ir.ops import tile_op
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops import OPS
from tile_core.ops.asynchronous import (
    ARRIVALS,
    ASYNCHRONOUS_OPS,
    BARRIER,
    BULK_LOAD,
    BULK_SEND,
    CLUSTER_BARRIER,
    itemsize,
)
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.collective import ThreadConditions
from tile_core.ops.threads import THREAD_PREFIX, called, is_instruction
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import MatrixUnits
from tile_core.passes.nests import FOREIGN, is_foreign
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS
from tile_core.passes.swizzle_tiles import TILES
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.cp_async import cp_async_commit, cp_async_wait
from tile_cuda.instructions.mbarrier import (
    fence_async,
    fence_barrier_init,
    mbarrier_announce,
    mbarrier_arrive,
    mbarrier_arrive_remote,
    mbarrier_init,
    mbarrier_wait,
)
from tile_cuda.instructions.tcgen05 import tcgen05_commit
from tile_cuda.instructions.threads import set_max_registers
from tile_cuda.instructions.tma import send, tma_load, tma_load_multicast, tma_store, tma_store_commit, tma_store_wait
from tile_cuda.matrix.tcgen05 import is_issuer
from tile_cuda.matrix.warp import WARP
from tile_cuda.passes.box_copies import Boxes, boxes
from tile_cuda.passes.matrix_tiles import matrix_tiles, products_beside_threads

BARRIERS = (BARRIER, CLUSTER_BARRIER)
NAMES = frozenset(op.name for op in ASYNCHRONOUS_OPS)
FILLING = (BULK_LOAD.name, BULK_SEND.name)
BOX_LOADS = ("cuda.tma_load", "cuda.tma_load_2sm", "cuda.tma_gather4")


@dataclass(frozen=True)
class LowerAsynchrony:
    """See the module."""

    name: ClassVar[str] = "lower_asynchrony"
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            MissingLoweringError: an architecture without such barriers and copies.
            OpArgumentError: a copy that the engine does not make.
        """

        def lower(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            return _Lowerer(launch, self.units, context).result() if is_asynchronous(launch.body) else loop

        return func.with_body(visit.mutate(func.body, (S.For, lower)), func.span)


def is_asynchronous(body: S.Stmt) -> bool:
    """Whether the author synchronises by hand in the body of a launch."""
    return (
        any(op_name(stmt) in NAMES for stmt in visit.collect(body, S.Evaluate))
        or bool(thread_groups.regions_in(body))
        or any(regions.scope(alloc.buffer) in BARRIERS for alloc in visit.collect(body, S.AllocBuffer))
    )


def is_scheduled(body: S.Stmt) -> bool:
    """Whether this pass has found the author's own synchronisation in the body of a launch."""
    return any(is_foreign(stmt) or thread_groups.is_region(stmt) for stmt in visit.collect(body, S.AttrStmt))


class _Lowerer:
    def __init__(self, launch: launch_ir.Launch, units: MatrixUnits, context: PassContext) -> None:
        self._launch, self._context = launch, context
        self._orders = matrix_tiles(launch, units, context.capabilities)
        self._barriers: dict[ir.Var, ir.Var] = {}
        self._copied: set[ir.Var] = set()
        self._binds: list[S.Stmt] = []
        self._conditions = ThreadConditions(launch)
        self._active: frozenset[int] | None = frozenset(range(prod(launch.threads)))
        self._is_divergent = False
        self._regions = thread_groups.regions_in(launch.body)
        self._users = _used(launch.body)
        products = products_beside_threads(launch, units, context.capabilities)
        self._loaded_by_threads = _loaded_by_threads(launch.body, products)
        x, y, z = launch.thread_vars
        nx, ny, _nz = launch.threads
        self._thread: ir.Expr = x if launch.threads[1:] == (1, 1) else (z * ny + y) * nx + x

    def result(self) -> S.Stmt:
        self._check_target()
        initialised = self._initialised()
        body = self._mutated(self._launch.body)
        body = visit.mutate(body, (S.AllocBuffer, self._allocation), (ir.TensorLoad, self._barrier_of))
        last = [self._meeting_of_cluster()] if self._is_of_cluster() else []
        launch = replace(self._launch, body=visit.sequence([*initialised, body, *last], self._launch.span))
        return visit.sequence([*self._binds, launch.to_stmt()], self._launch.span)

    def _is_of_cluster(self) -> bool:
        """Whether blocks arrive at barriers of each other."""
        return any(regions.scope(buffer) == CLUSTER_BARRIER for buffer in self._barriers)

    def _meeting_of_cluster(self) -> S.Stmt:
        return _foreign(_do(ir.Call(tile_op(f"{THREAD_PREFIX}cluster_sync"), [], ret_ty="void"), self._launch.span))

    def _rank(self) -> ir.Expr:
        """The number of this block in its cluster, x fastest."""
        rank: ir.Expr = int32(0)
        stride = 1
        for var, size in zip(self._launch.grid_vars, self._launch.cluster_dims, strict=False):
            rank = rank + tirx.floormod(var, int32(size)) * int32(stride)
            stride *= size
        return rank

    def _check_target(self) -> None:
        if "cp.async.bulk.tensor" not in self._context.capabilities.fact("async_copy", []):
            raise MissingLoweringError(
                "barriers with phases and copies that signal them are not in this architecture",
                remedy="compile for sm_90 or later, or leave the schedule to the compiler: T.Pipelined",
                span=from_tvm(self._launch.span),
            )

    def _initialised(self) -> list[S.Stmt]:
        """The barriers, made by one thread before the block begins."""
        allocations, inits = [], []
        for alloc in visit.collect(self._launch.body, S.AllocBuffer):
            if regions.scope(alloc.buffer) not in BARRIERS:
                continue
            shape = list(alloc.buffer.shape)
            place = tirx.decl_buffer(shape, "uint64", str(alloc.buffer.name), scope=regions.SHARED[0])
            self._barriers[alloc.buffer] = place
            allocations.append(S.AllocBuffer(place, {ASYNCHRONOUS: ALWAYS}, span=alloc.span))
            for number, count in enumerate(alloc.annotations[ARRIVALS]):
                inits.append(S.Evaluate(mbarrier_init(_address(place, [int32(number)]), int(count)), alloc.span))
        if not inits:
            return []
        first = S.IfThenElse(E.EQ(self._thread, int32(0)), visit.sequence([*inits, _do(fence_barrier_init())]), None)
        met = [self._meeting_of_cluster()] if self._is_of_cluster() else []
        return [*allocations, _foreign(first), *met, barrier(self._launch.span)]

    def _mutated(self, stmt: S.Stmt) -> S.Stmt:
        return visit.mutate(
            stmt,
            (S.AttrStmt, self._attribute),
            (S.IfThenElse, self._branch),
            (S.Evaluate, self._evaluate),
        )

    def _among(self, active: frozenset[int] | None, stmt: S.Stmt, *, divergent: bool) -> S.Stmt:
        """`stmt` where only the threads `active` come by; `None` where that is not known."""
        outer = self._active, self._is_divergent
        self._active, self._is_divergent = active, self._is_divergent or divergent
        found = self._mutated(stmt)
        self._active, self._is_divergent = outer
        return found

    def _branch(self, stmt: S.IfThenElse, mutator: Any) -> S.Stmt:
        if not self._conditions.differ(stmt.condition):
            return mutator.default_mutate(stmt)
        active = self._active
        chosen = None if active is None else self._conditions.chosen(stmt.condition, active)
        rest = None if active is None or chosen is None else active - chosen
        then = self._among(chosen, stmt.then_case, divergent=True)
        otherwise = None if stmt.else_case is None else self._among(rest, stmt.else_case, divergent=True)
        return S.IfThenElse(stmt.condition, then, otherwise, stmt.span)

    def _attribute(self, stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
        if not thread_groups.is_region(stmt):
            return mutator.default_mutate(stmt)
        group = thread_groups.group_of(stmt)
        among = frozenset(range(group.first, group.first + group.count))
        outer, self._users = (
            self._users,
            frozenset[ir.Var]().union(
                *(_used(region.body) for region in self._regions if thread_groups.group_of(region) == group)
            ),
        )
        found = thread_groups.region(group, self._among(among, stmt.body, divergent=False))
        self._users = outer
        return found

    def _evaluate(self, stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        if is_instruction(stmt) and called(stmt) in BOX_LOADS:
            self._copied.update(load.source for load in visit.collect(stmt.value.args[0], ir.TensorLoad))
        return _LOWERINGS[str(op_name(stmt))](self, view(stmt, OPS)) if op_name(stmt) in NAMES else stmt

    def _barrier_of(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        """A barrier of the author's in an instruction of the author's."""
        place = self._barriers.get(load.source)
        return mutator.default_mutate(load) if place is None else tirx.BufferLoad(place, list(load.indices))

    def _allocation(self, alloc: S.AllocBuffer, _mutator: Any) -> S.Stmt:
        if alloc.buffer in self._barriers:
            return visit.sequence([], alloc.span)
        if alloc.buffer in self._copied:
            return S.AllocBuffer(alloc.buffer, {**alloc.annotations, ASYNCHRONOUS: ALWAYS}, span=alloc.span)
        return alloc

    def barrier(self, call: OpCall) -> ir.Expr:
        """The address of the barrier of a call."""
        region = call.region("barrier")
        return _address(self._barriers[region.source], [axis.min for axis in region.region])

    def load(self, call: OpCall) -> S.Stmt:
        found = self._boxes(call, "src", "dst")
        tensor, full = self._described(found, call), self.barrier(call)
        copies = [tma_load(_address(found.tile, list(at)), tensor, full, *start) for at, start in found.places]
        announced = mbarrier_announce(full, found.bytes)
        if "mask" not in call.attrs:
            return self._after_users(call, self._by_one(call, announced, *copies))
        mask = int(call.attrs["mask"])
        shared = [
            tma_load_multicast(_address(found.tile, list(at)), tensor, full, mask, *start) for at, start in found.places
        ]
        return self._after_users(call, self._by_one(call, announced, self._by_mask(mask, shared, copies, call)))

    def have_read(self) -> list[ir.Expr]:
        """What a thread does before it says that it has read tiles."""
        return [fence_async()] if self._loaded_by_threads else []

    def _after_users(self, call: OpCall, load: S.Stmt) -> S.Stmt:
        """A load into a tile that the threads which come by use themselves: they are done with it first."""
        tile = call.region("dst").source
        fence = [_foreign(_do(fence_async(), call.span))] if tile in self._loaded_by_threads else []
        before = [*fence, *self._meeting(call)] if tile in self._users else []
        return visit.sequence([*before, load], call.span)

    def _by_mask(self, mask: int, shared: list[ir.Expr], own: list[ir.Expr], call: OpCall) -> S.Stmt:
        """The first block of the mask loads for all of it, blocks outside of it load for themselves."""
        size = prod(self._launch.cluster_dims)
        if mask >> size:
            raise OpArgumentError(
                f"cluster_mask={mask:#x} names blocks that a cluster of {size} does not have",
                remedy="give cluster_dims= to T.Kernel, and a bit for each of its blocks",
                span=from_tvm(call.span),
            )
        rank = self._rank()
        outside = E.EQ(tirx.bitwise_and(int32(mask) >> rank, int32(1)), int32(0))
        alone = S.IfThenElse(outside, _all(own, call.span), None, call.span)
        first = (mask & -mask).bit_length() - 1
        return S.IfThenElse(E.EQ(rank, int32(first)), _all(shared, call.span), alone, call.span)

    def store(self, call: OpCall) -> S.Stmt:
        found = self._boxes(call, "dst", "src")
        if any((constant(axis.min) or 0) < 0 for axis in call.region("dst").region):
            raise OpArgumentError(
                f"a store to {found.tensor.name} begins at a negative index, where the tensor copy engine only loads",
                remedy="store the part that is inside",
                span=from_tvm(call.span),
            )
        tensor = self._described(found, call)
        copies = [tma_store(tensor, _address(found.tile, list(at)), *start) for at, start in found.places]
        one = self._by_one(call, *copies, tma_store_commit())
        fence = _foreign(_do(fence_async(), call.span))
        return visit.sequence([fence, *self._meeting(call), one], call.span)

    def send(self, call: OpCall) -> S.Stmt:
        """A tile as it lies in memory; what the threads have written to it is seen."""
        src, dst = call.region("src"), call.region("dst")
        if self._orders.get(src.source) != self._orders.get(dst.source):
            raise OpArgumentError(
                f"{src.source.name} and {dst.source.name} are ordered differently, of which one is read by a product",
                remedy="send from a tile that products read alike, or read the tile that arrives by T.copy",
                span=from_tvm(call.span),
            )
        count = prod(constant(axis.extent) or 0 for axis in dst.region) * itemsize(dst.source)
        self._copied.update((src.source, dst.source))
        places = [_address(region.source, [axis.min for axis in region.region]) for region in (dst, src)]
        one = self._by_one(call, send(places[0], places[1], self.barrier(call), count, call.args["block"]))
        return visit.sequence([_foreign(_do(fence_async(), call.span)), *self._meeting(call), one], call.span)

    def arrive_when_done(self, call: OpCall) -> S.Stmt:
        """An arrival by the thread that issues products in tensor memory, when those are done."""
        commit = _do(tcgen05_commit(self.barrier(call)), call.span)
        if self._active is None or len(self._active) < WARP:
            return self._by_one(call, commit)
        return _foreign(S.IfThenElse(is_issuer(self._thread, min(self._active)), commit, None, call.span))

    def wait_for_stores(self, call: OpCall) -> S.Stmt:
        wait = tma_store_wait(int(call.attrs["pending"]), read=bool(int(call.attrs["read"])))
        return visit.sequence([_foreign(_do(wait, call.span)), *self._meeting(call)], call.span)

    def _meeting(self, call: OpCall) -> list[S.Stmt]:
        """A barrier of the threads that come by, which single threads are not asked for."""
        return [] if self._is_divergent else [barrier(call.span)]

    def _by_one(self, call: OpCall, *calls: ir.Expr | S.Stmt) -> S.Stmt:
        if not self._active:
            raise OpArgumentError(
                "a tensor copy stands under a condition of which it is not known which threads meet it",
                remedy="use a condition on the thread index alone, such as `if tx == 0:`",
                span=from_tvm(call.span),
            )
        first = E.EQ(self._thread, int32(min(self._active)))
        return _foreign(S.IfThenElse(first, _all(calls, call.span), None, call.span))

    def _boxes(self, call: OpCall, tensor: str, tile: str) -> Boxes:
        buffer = call.region(tile).source
        order: SwizzledTile | None = self._orders.get(buffer)
        if order is not None:
            self._context.state.setdefault(TILES, {})[buffer] = order
        self._copied.add(buffer)
        return boxes(call.region(tensor), call.region(tile), order, call.span)

    def _described(self, found: Boxes, call: OpCall) -> ir.Var:
        var = named(f"{found.tensor.name}_map")
        self._binds.append(S.Bind(var, found.map(), call.span))
        return var


def _loaded_by_threads(body: S.Stmt, products: Sequence[S.Stmt]) -> frozenset[ir.Var]:
    """The tiles that copies beside the threads fill, and that statements other than `products` use."""
    filled: set[ir.Var] = set()

    def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        if op_name(stmt) in FILLING:
            filled.add(view(stmt, OPS).region("dst").source)
        elif is_instruction(stmt) and called(stmt) in BOX_LOADS:
            filled.update(load.source for load in visit.collect(stmt.value.args[0], ir.TensorLoad))
        elif not any(stmt.same_as(product) for product in products):
            return stmt
        return _nothing(stmt)

    others = visit.mutate(body, (S.Evaluate, evaluate), (S.AllocBuffer, lambda stmt, _mutator: _nothing(stmt)))
    return frozenset(filled.intersection(visit.collect(others, ir.Var)))


def _used(body: S.Stmt) -> frozenset[ir.Var]:
    """The buffers that statements under `body` read or write otherwise than by loading them."""
    loads = [stmt for stmt in visit.collect(body, S.Evaluate) if op_name(stmt) == BULK_LOAD.name]
    without = visit.mutate(
        body, (S.Evaluate, lambda stmt, _m: _nothing(stmt) if op_name(stmt) == BULK_LOAD.name else stmt)
    )
    without = visit.mutate(without, (S.AllocBuffer, lambda alloc, _m: visit.sequence([], alloc.span)))
    sources = {var for stmt in loads for var in visit.collect(stmt.value.args[0], ir.Var)}
    return frozenset({*visit.collect(without, ir.Var), *sources})


def _nothing(stmt: S.Stmt) -> S.Stmt:
    return visit.sequence([], stmt.span)


def _address(buffer: ir.Var, index: list[ir.Expr]) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, index))


def _do(call: ir.Expr, span: ir.Span | None = None) -> S.Stmt:
    return S.Evaluate(call, span)


def _all(parts: Sequence[ir.Expr | S.Stmt], span: ir.Span | None) -> S.Stmt:
    return visit.sequence([part if isinstance(part, S.Stmt) else _do(part, span) for part in parts], span)


def _foreign(stmt: S.Stmt) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), stmt, stmt.span)


def _each(make: Callable[[_Lowerer, OpCall], list[ir.Expr]]) -> Callable[[_Lowerer, OpCall], S.Stmt]:
    """A lowering to what every thread does."""

    def lower(lowerer: _Lowerer, call: OpCall) -> S.Stmt:
        return _foreign(visit.sequence([_do(one, call.span) for one in make(lowerer, call)], call.span))

    return lower


_LOWERINGS: dict[str, Callable[[_Lowerer, OpCall], S.Stmt]] = {
    "tile.barrier_arrive": _each(lambda lowerer, call: [*lowerer.have_read(), mbarrier_arrive(lowerer.barrier(call))]),
    "tile.barrier_arrive_at": _each(
        lambda lowerer, call: [
            *lowerer.have_read(),
            mbarrier_arrive_remote(lowerer.barrier(call), call.args["block"]),
        ]
    ),
    "tile.barrier_expect": _each(lambda lowerer, call: [mbarrier_announce(lowerer.barrier(call), call.args["count"])]),
    "tile.barrier_wait": _each(lambda lowerer, call: [mbarrier_wait(lowerer.barrier(call), call.args["parity"])]),
    # The copies of `T.async_copy` may be ordinary ones, which only an arrival of the thread itself passes on.
    "tile.barrier_arrive_copies": _each(
        lambda lowerer, call: [cp_async_commit(), cp_async_wait(0), mbarrier_arrive(lowerer.barrier(call))]
    ),
    "tile.barrier_arrive_products": _Lowerer.arrive_when_done,
    "tile.bulk_load": _Lowerer.load,
    "tile.bulk_store": _Lowerer.store,
    "tile.bulk_send": _Lowerer.send,
    "tile.bulk_commit": _each(lambda _lowerer, _call: [tma_store_commit()]),
    "tile.bulk_wait": _Lowerer.wait_for_stores,
    "tile.async_fence": _each(lambda _lowerer, _call: [fence_async()]),
    "tile.set_registers": _each(
        lambda _lowerer, call: [set_max_registers(int(call.attrs["count"]), increase=bool(int(call.attrs["increase"])))]
    ),
}
assert frozenset(_LOWERINGS) == NAMES, "an op without a lowering"
