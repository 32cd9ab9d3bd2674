"""Results that a loop adds to a tensor leave through a shared tile, and the copy engine adds them there.

A thread that holds two neighbours of a row would add them one by one, a warp eight rows at a time in pieces of 32 B,
and all of that stands between two products. With the tile the threads are done when they have written it: one thread
asks the engine to add whole rows, and waits only before the tile is written again. Additions of float32 in any order
are what atomic ones promise, and nobody else may touch the tensor in the same launch, under this or another name.

Runs on tile ops, on launches whose copies run ahead already (`specialize_warps`): their tensors suit the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.descriptors import named
from tile_core.ir.uses import Uses, uses
from tile_core.layouts.swizzle import SwizzledTile, swizzled
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN, is_foreign
from tile_core.passes.plan_shared_memory import OWN_PLACE, size_in_bytes
from tile_core.passes.swizzle_tiles import ALIGNMENT, TILES
from tile_core.passes.thread_scope import ALIGNED, int32
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.tma import bulk_reduce_add, tma_reduce_add, tma_store_commit, tma_store_wait
from tile_cuda.passes.index_facts import index_facts
from tile_cuda.passes.ordered_additions import OrderedAddition, is_only_added_to, ordered_addition
from tile_cuda.passes.tensor_copies import TensorCopy, boxed_store


@dataclass(frozen=True)
class AddResults:
    """See the module."""

    name: ClassVar[str] = "add_results"
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def add(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            return _Adder(launch_ir.from_stmt(loop), func.body, self.units, context).result()

        return func.with_body(visit.mutate(func.body, (S.For, add)), func.span)


class _Adder:
    def __init__(self, launch: launch_ir.Launch, program: S.Stmt, units: MatrixUnits, context: PassContext) -> None:
        self._launch, self._program, self._context = launch, program, context
        self._multiplier = Multiplier(units, prod(launch.threads), context.capabilities)
        shared = [alloc.buffer for alloc in visit.collect(launch.body, S.AllocBuffer)]
        used = sum(size_in_bytes(tile) + ALIGNMENT for tile in shared if regions.scope(tile) in regions.SHARED)
        self._room = int(context.capabilities.shared_bytes or 0) - used
        self._analyzer = index_facts(launch)
        self._first = E.EQ(launch.thread_vars[0], int32(0))
        self._maps: list[S.Bind] = []
        self._tiles: dict[ir.Var, ir.Var] = {}

    def result(self) -> S.Stmt:
        body = self._launch.body
        marks = {mark.node for mark in visit.collect(body, S.AttrStmt) if mark.attr_key == ALIGNED}
        if not marks or thread_groups.regions_in(body):
            return self._launch.to_stmt()
        held = self._held()

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            if op_name(stmt) != "tile.atomic":
                return stmt
            call = _view(stmt)
            if call.region("src").source not in held or call.region("dst").source not in marks:
                return stmt
            return self._added(call) or stmt

        def attribute(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
            return stmt if is_foreign(stmt) else mutator.default_mutate(stmt)

        def nest(stmt: S.For, mutator: Any) -> S.Stmt:
            found = ordered_addition(stmt, self._analyzer)
            if found is None or found.fragment not in held or found.tensor not in marks:
                return mutator.default_mutate(stmt)
            return self._added_in_order(found) or stmt

        body = visit.mutate(body, (S.Evaluate, evaluate), (S.AttrStmt, attribute), (S.For, nest))
        if not self._tiles:
            return self._launch.to_stmt()
        parts = list(body.seq) if isinstance(body, S.SeqStmt) else [body]
        own = [part for part in parts if not _is_other_program(part)]
        others = [part for part in parts if _is_other_program(part)]
        tiles = [S.AllocBuffer(tile, {OWN_PLACE: 1}, span=body.span) for tile in self._tiles.values()]
        body = visit.sequence([*tiles, *own, self._of_one(body.span, tma_store_wait(0, read=True)), *others], body.span)
        launch = replace(self._launch, body=body).to_stmt()
        return visit.sequence([*self._maps, launch], self._launch.span)

    def _added_in_order(self, addition: OrderedAddition) -> S.Stmt | None:
        """The addition of a run of bytes; `None` where there is no room for its tile, or the tensor has other uses."""
        tile = self._tiles.get(addition.fragment)
        if tile is None:
            name, scope = f"{addition.fragment.name}_run", regions.SHARED[0]
            tile = tirx.decl_buffer((addition.count,), "float32", name, scope=scope, data_alignment=ALIGNMENT)
            room = size_in_bytes(tile) + ALIGNMENT
            if room > self._room or not is_only_added_to(addition.tensor, self._launch.body, self._program):
                return None
            self._room -= room
            self._tiles[addition.fragment] = tile
        if list(map(regions.constant, tile.shape)) != [addition.count]:
            return None
        source = tirx.address_of(tirx.BufferLoad(tile, [int32(0)]))
        target = tirx.address_of(tirx.BufferLoad(addition.tensor, list(addition.start)))
        add = bulk_reduce_add(target, source, size_in_bytes(tile))
        return self._through(addition.into(tile), [add, tma_store_commit()], addition.nest.span)

    def _through(self, into: S.Stmt, add: list[ir.Expr], span: ir.Span | None) -> S.Stmt:
        """All threads write a tile when it has been read, then one thread asks the engine to add it."""
        return visit.sequence(
            [
                self._of_one(span, tma_store_wait(0, read=True)),
                barrier(span),
                into,
                S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(fence_async(), span)),
                barrier(span),
                self._of_one(span, *add),
            ],
            span,
        )

    def _held(self) -> set[ir.Var]:
        """The results of products by matrix instructions."""
        found = set()
        for stmt in visit.collect(self._launch.body, S.Evaluate):
            if op_name(stmt) == "tile.gemm":
                product = self._multiplier.of(_view(stmt), frozenset())
                found |= set() if product is None else {held.buffer for held in product.held[:1]}
        return found

    def _added(self, call: OpCall) -> S.Stmt | None:
        """The addition through a tile of its own; `None` where the engine cannot make it or there is no room."""
        src = call.region("src")
        tile = _order(src)
        if tile is None or not _is_plain(call) or not self._begins_inside(call.region("dst")):
            return None
        buffer, room = self._tiles.get(src.source), 0
        if buffer is None:
            name, scope = f"{src.source.name}_tile", regions.SHARED[0]
            buffer = tirx.decl_buffer(src.source.shape, "float32", name, scope=scope, data_alignment=ALIGNMENT)
            room = size_in_bytes(buffer) + ALIGNMENT
        copy = self._boxed(replace(call, args={**call.args, "src": regions.whole(buffer)}), tile)
        if copy is None or room > self._room:
            return None
        self._room -= room
        self._tiles[src.source] = buffer
        self._context.state.setdefault(TILES, {})[buffer] = tile
        into = OpCall(OPS["tile.copy"], {"src": call.args["src"], "dst": regions.whole(buffer)}, {}, call.span)
        return self._through(into.to_stmt(), self._additions(copy, tile), call.span)

    def _begins_inside(self, region: ir.TensorRegion) -> bool:
        """Whether its first element is one of the tensor's: a box that lies wholly outside is not the engine's."""
        starts = zip(region.region, region.source.shape, strict=True)
        return all(
            self._analyzer.can_prove(E.And(E.GE(axis.min, E.IntImm(axis.min.ty, 0)), E.LT(axis.min, size)))
            for axis, size in starts
        )

    def _additions(self, copy: TensorCopy, tile: SwizzledTile) -> list[ir.Expr]:
        tensor = self._map(copy)
        found = []
        for strip in range(tile.strips):
            place = tirx.address_of(tirx.BufferLoad(copy.target, [int32(0), int32(strip * tile.strip)]))
            found.append(tma_reduce_add(tensor, place, *copy.coordinates(strip)))
        return [*found, tma_store_commit()]

    def _map(self, copy: TensorCopy) -> ir.Var:
        """The map of a tensor and a box of it."""
        value = copy.map()
        for known in self._maps:
            if tvm_ffi.structural_equal(known.value, value):
                return known.var
        self._maps.append(S.Bind(named(f"{copy.tensor.name}_map"), value, copy.call.span))
        return self._maps[-1].var

    def _boxed(self, call: OpCall, tile: SwizzledTile) -> TensorCopy | None:
        """The addition as one of boxes: to a float32 tensor of known strides, which this launch does but add to."""
        copy = boxed_store(call, tile, self._analyzer)
        if copy is None or str(copy.tensor.dtype) != "float32":
            return None
        body, tensor = self._launch.body, copy.tensor
        stmts = [stmt for stmt in visit.collect(body, S.Evaluate) if op_name(stmt) == "tile.atomic"]
        added = [stmt for stmt in stmts if _view(stmt).region("dst").source.same_as(tensor) and _is_plain(_view(stmt))]
        return copy if uses(tensor, body, self._program) == Uses(operands=len(added)) else None

    def _of_one(self, span: ir.Span | None, *calls: ir.Expr) -> S.Stmt:
        """What the first thread does alone: the engine's groups are a thread's own."""
        stmts = visit.sequence([S.Evaluate(call, span) for call in calls])
        return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(self._first, stmts, None))


def _order(src: ir.TensorRegion) -> SwizzledTile | None:
    """The order of a tile for a whole float32 fragment of two axes."""
    shape = [regions.constant(extent) for extent in src.source.shape]
    if not regions.is_whole(src) or len(shape) != 2 or str(src.source.dtype) != "float32":
        return None
    rows, columns = shape
    return None if rows is None or columns is None else swizzled(rows, columns, 4)


def _is_plain(call: OpCall) -> bool:
    """Whether it adds, in any order."""
    return str(call.attrs["kind"]) == "add" and not int(call.attrs.get("memory_order", 0))


def _is_other_program(stmt: S.Stmt) -> bool:
    return is_foreign(stmt) and regions.constant(stmt.value) == 1


def _view(stmt: S.Evaluate) -> OpCall:
    return view(stmt, OPS)
