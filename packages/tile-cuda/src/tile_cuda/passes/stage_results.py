"""Results of matrix instructions go to memory through shared tiles.

The instructions leave two neighbours of a row in a thread, so that a warp that stored them would write eight rows in
pieces of 16 bytes. A copy of such a fragment to a tensor is therefore made in two: into a shared tile in swizzled
order, without bank conflicts (`matrix/store.py`), and from there in whole vectors along the rows, or by the copy
engine. Tiles into which the author copies such a fragment are laid out in the same way.

Runs on tile ops, after `specialize_warps`. A result for which shared memory has no room is stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.descriptors import named
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile, swizzled
from tile_core.ops.base import OpCall, op_name, view
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import STORE, MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN, is_foreign
from tile_core.passes.plan_shared_memory import ONCE, asynchronous, size_in_bytes
from tile_core.passes.swizzle_tiles import ALIGNMENT, TILES
from tile_core.passes.thread_scope import ALIGNED, int32
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.tma import tma_store, tma_store_commit, tma_store_wait
from tile_cuda.passes.tensor_copies import TensorCopy, boxed_store, touched


@dataclass(frozen=True)
class StageResults:
    """See the module."""

    name: ClassVar[str] = "stage_results"
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def stage(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            return _Stager(launch_ir.from_stmt(loop), self.units, context).result()

        return func.with_body(visit.mutate(func.body, (S.For, stage)), func.span)


class _Stager:
    def __init__(self, launch: launch_ir.Launch, units: MatrixUnits, context: PassContext) -> None:
        self._launch, self._context = launch, context
        views = visit.collect(launch.body, S.DeclBuffer)
        self._elsewhere = frozenset(declared.buffer for declared in views).union(*map(viewed, views))
        self._multiplier = Multiplier(units, prod(launch.threads), context.capabilities)
        self._once = {buffer for buffer, kind in asynchronous(launch.body).items() if kind == ONCE}
        self._room = self._free_bytes()
        self._is_behind = True
        self._depth = 0
        self._maps: list[S.Stmt] = []

    def result(self) -> S.Stmt:
        held = {
            held.buffer
            for call in self._calls("tile.gemm")
            if (product := self._multiplier.of(call, self._elsewhere)) is not None
            for held in product.held[:1]
        }
        if not held or thread_groups.regions_in(self._launch.body):
            return self._launch.to_stmt()

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            if op_name(stmt) != "tile.copy":
                return stmt
            return self._copy(_view(stmt), held) or stmt

        def loop(node: S.For, mutator: Any) -> S.Stmt:
            self._depth += 1
            node = mutator.default_mutate(node)
            self._depth -= 1
            return node

        def attribute(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
            return stmt if is_foreign(stmt) else mutator.default_mutate(stmt)

        parts = list(self._launch.body.seq) if isinstance(self._launch.body, S.SeqStmt) else [self._launch.body]
        behind = max((at + 1 for at, part in enumerate(parts) if self._uses_a_ring(part)), default=0)
        staged = []
        for at, part in enumerate(parts):
            self._is_behind = at >= behind
            staged.append(visit.mutate(part, (S.Evaluate, evaluate), (S.For, loop), (S.AttrStmt, attribute)))
        body = visit.sequence(staged, self._launch.body.span)
        return visit.sequence([*self._maps, replace(self._launch, body=body).to_stmt()], self._launch.span)

    def _calls(self, name: str) -> Iterator[OpCall]:
        return (_view(stmt) for stmt in visit.collect(self._launch.body, S.Evaluate) if op_name(stmt) == name)

    def _uses_a_ring(self, stmt: S.Stmt) -> bool:
        """Whether tiles that are free once the block has read them are read here."""
        return not isinstance(stmt, S.AllocBuffer) and not is_foreign(stmt) and bool(touched(stmt) & self._once)

    def _free_bytes(self) -> int:
        """Shared memory that nothing else may need at the end of the kernel, when rings are free."""
        tiles = (alloc.buffer for alloc in visit.collect(self._launch.body, S.AllocBuffer))
        shared = [tile for tile in tiles if regions.scope(tile) in regions.SHARED and tile not in self._once]
        used = sum(size_in_bytes(tile) + ALIGNMENT for tile in shared)
        return int(self._context.capabilities.shared_bytes or 0) - used

    def _room_here(self) -> int:
        """The same where the program stands: rings are in use until the last loop that reads them is done."""
        rings = 0 if self._is_behind else sum(size_in_bytes(tile) + ALIGNMENT for tile in self._once)
        return self._room - rings

    def _copy(self, call: OpCall, held: set[ir.Var]) -> S.Stmt | None:
        src, dst = call.region("src"), call.region("dst")
        if src.source not in held or not regions.is_whole(src) or dst.source in self._elsewhere:
            return None
        rows, columns = (regions.constant(extent) for extent in list(src.source.shape)[-2:])
        assert rows is not None and columns is not None
        tile = swizzled(rows, columns, max(1, as_dtype(str(dst.source.dtype)).bits // 8))
        if tile is None or len(src.source.shape) != 2:
            return None
        if regions.scope(dst.source) in regions.SHARED:
            if regions.is_whole(dst) and len(dst.source.shape) == 2:
                self._context.state.setdefault(TILES, {}).setdefault(dst.source, tile)
                return _by_instructions(call)
            return None
        size = rows * columns * tile.itemsize
        if regions.scope(dst.source) != regions.GLOBAL or size > self._room_here():
            return None
        buffer = tirx.decl_buffer(
            (rows, columns),
            str(dst.source.dtype),
            f"{dst.source.name}_tile",
            scope=regions.SHARED[0],
            data_alignment=ALIGNMENT,
        )
        self._context.state.setdefault(TILES, {})[buffer] = tile
        self._room -= size
        whole = regions.whole(buffer)
        return visit.sequence(
            [
                S.AllocBuffer(buffer, span=call.span),
                _by_instructions(replace(call, args={**call.args, "dst": whole})),
                *self._leave(replace(call, args={**call.args, "src": whole}), tile),
            ],
            call.span,
        )

    def _leave(self, call: OpCall, tile: SwizzledTile) -> list[S.Stmt]:
        """From the tile to the tensor: by the copy engine where the tensor is known to suit it, else by all threads.

        A copy that a loop repeats waits until it has written: nothing orders it with the next.
        """
        copy = self._boxed(call, tile)
        if copy is None:
            return [call.to_stmt()]
        tensor = named(f"{copy.tensor.name}_map")
        self._maps.append(S.Bind(tensor, copy.map(), call.span))
        stores: list[S.Stmt] = []
        for strip in range(tile.strips):
            place = tirx.address_of(tirx.BufferLoad(copy.target, [int32(0), int32(strip * tile.strip)]))
            stores.append(S.Evaluate(tma_store(tensor, place, *copy.coordinates(strip)), call.span))
        stores += [S.Evaluate(tma_store_commit()), S.Evaluate(tma_store_wait(0, read=not self._depth))]
        first = E.EQ(self._launch.thread_vars[0], int32(0))
        parts = [S.Evaluate(fence_async()), barrier(call.span), S.IfThenElse(first, visit.sequence(stores), None)]
        if self._depth:
            parts.append(barrier(call.span))
        return [S.AttrStmt(int32(0), FOREIGN, int32(0), visit.sequence(parts, call.span))]

    def _boxed(self, call: OpCall, tile: SwizzledTile) -> TensorCopy | None:
        """The copy as one of boxes: to a tensor of known strides, aligned, and touched by nothing else here."""
        marks = [stmt for stmt in visit.collect(self._launch.body, S.AttrStmt) if stmt.attr_key == ALIGNED]
        copy = boxed_store(call, tile)
        if copy is None or copy.tensor not in {mark.node for mark in marks}:
            return None
        body, tensor = self._launch.body, copy.tensor
        regions_of_it = [region for region in visit.collect(body, ir.TensorRegion) if region.source.same_as(tensor)]
        loads = any(load.source.same_as(tensor) for load in visit.collect(body, ir.TensorLoad))
        stores = any(store.buffer.same_as(tensor) for store in visit.collect(body, S.BufferStore))
        return copy if len(regions_of_it) == 1 and not loads and not stores else None


def _by_instructions(call: OpCall) -> S.Stmt:
    """The copy, marked as one that instructions may make."""
    stmt = call.to_stmt()
    return S.AttrStmt(stmt.value, STORE, int32(1), stmt, call.span)


def _view(stmt: S.Evaluate) -> OpCall:
    from tile_core.ops import OPS

    return view(stmt, OPS)
