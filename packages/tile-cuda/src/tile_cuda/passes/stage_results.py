"""Results of matrix instructions go to memory through shared tiles.

The instructions leave two neighbours of a row in a thread, so that a warp that stored them would write eight rows in
pieces of 16 bytes. A copy of such a fragment to a tensor is therefore made in two: into a shared tile in swizzled
order, without bank conflicts (`matrix/store.py`), and from there in whole vectors along the rows, or by the copy
engine. Tiles into which the author copies such a fragment are laid out in the same way, and operands that he keeps in
registers are read from such tiles as results are written (`matrix/load.py`). In a loop, where the tiles of the pipeline
are never free, a result goes in parts through two smaller tiles, and is on its way while the loop goes on.

Runs on tile ops, after `specialize_warps`. A result for which shared memory has no room is stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from tile_core.ir.uses import Uses, uses
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile, swizzled
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import Tile, parallel
from tile_core.ops.copy import is_by_threads
from tile_core.ops.gemm import sizes
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier, barrier_of_groups
from tile_core.passes.matrix import STORE, MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN, NOTED, is_foreign
from tile_core.passes.plan_shared_memory import ALIGNMENT as PLACE
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, ONCE, asynchronous, size_in_bytes
from tile_core.passes.swizzle_tiles import ALIGNMENT, TILES
from tile_core.passes.thread_scope import ALIGNED, int32
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.tma import tma_store, tma_store_commit, tma_store_wait
from tile_cuda.matrix.store import FIRST_COLUMN
from tile_cuda.matrix.tcgen05 import in_tensor_memory
from tile_cuda.matrix.warp import WARPGROUP
from tile_cuda.matrix.wgmma import ROWS, WarpgroupProduct
from tile_cuda.passes.index_facts import index_facts
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
            return _Stager(launch_ir.from_stmt(loop), func.body, self.units, context).result()

        return func.with_body(visit.mutate(func.body, (S.For, stage)), func.span)


class _Stager:
    def __init__(self, launch: launch_ir.Launch, program: S.Stmt, units: MatrixUnits, context: PassContext) -> None:
        self._launch, self._program, self._context = launch, program, context
        views = visit.collect(launch.body, S.DeclBuffer)
        self._elsewhere = frozenset(declared.buffer for declared in views).union(*map(viewed, views))
        self._multiplier = Multiplier(units, prod(launch.threads), context.capabilities)
        self._once = {buffer for buffer, kind in asynchronous(launch.body).items() if kind == ONCE}
        self._facts = index_facts(launch)
        self._room = self._free_bytes()
        self._is_behind = True
        self._depth = 0
        self._maps: list[S.Stmt] = []
        self._ends: list[S.Stmt] = []

    def result(self) -> S.Stmt:
        held = {
            held.buffer
            for call in self._calls("tile.gemm")
            if (product := self._multiplier.of(call, self._elsewhere)) is not None
            for held in product.held
        }
        copies = [call for call in self._calls("tile.copy") if in_tensor_memory(call.region("src").source)]
        held |= {call.region("dst").source for call in copies}
        if not held or thread_groups.regions_in(self._launch.body):
            return self._launch.to_stmt()

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            if op_name(stmt) != "tile.copy" or is_by_threads(_view(stmt)):
                return stmt
            if _is_operand_load(_view(stmt), held):
                return _by_instructions(_view(stmt))
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
        body = visit.sequence(_before_other_programs(staged, self._ends), self._launch.body.span)
        return visit.sequence([*self._maps, replace(self._launch, body=body).to_stmt()], self._launch.span)

    def _calls(self, name: str) -> Iterator[OpCall]:
        return (_view(stmt) for stmt in visit.collect(self._launch.body, S.Evaluate) if op_name(stmt) == name)

    def _uses_a_ring(self, stmt: S.Stmt) -> bool:
        """Whether tiles that are free once the block has read them are read here."""
        return not isinstance(stmt, S.AllocBuffer) and not is_foreign(stmt) and bool(touched(stmt) & self._once)

    def _free_bytes(self) -> int:
        """Shared memory that nothing else may need at the end of the kernel, when rings are free."""
        tiles = (alloc.buffer for alloc in visit.collect(self._launch.body, S.AllocBuffer))
        shared = [tile for tile in tiles if regions.scope(tile) in regions.SHARED]
        self._has_gaps = any(size_in_bytes(tile) >= ALIGNMENT and size_in_bytes(tile) % ALIGNMENT for tile in shared)
        used = sum(self._room_of(tile) for tile in shared if tile not in self._once)
        return int(self._context.capabilities.shared_bytes or 0) - used

    def _room_here(self) -> int:
        """The same where the program stands: rings are in use until the last loop that reads them is done."""
        rings = 0 if self._is_behind else sum(map(self._room_of, self._once))
        return self._room - rings - (ALIGNMENT - PLACE if self._has_gaps else 0)

    def _room_of(self, tile: ir.Var) -> int:
        """Bytes of a tile and of the gap before it, at most. The largest tiles lie first.

        Between tiles that are all multiples of what they begin at there are no gaps.
        """
        alignment = max(PLACE, int(tile.ty.data_alignment)) if self._has_gaps else PLACE
        return -(-size_in_bytes(tile) // PLACE) * PLACE + alignment - PLACE

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
        if regions.scope(dst.source) != regions.GLOBAL:
            return None
        strips = self._strips_at_once(tile)
        return None if strips is None else self._staged(call, tile, strips)

    def _strips_at_once(self, tile: SwizzledTile) -> int | None:
        """Strips of a result that there is room for: all of them, or in loops a part that divides them.

        Two such parts, if possible: one is written while the other leaves.
        """
        room = self._room_here() // tile.strip_bytes
        if room >= tile.strips:
            return tile.strips
        if not self._depth or tile.strips == 1:
            return None
        most = min(room // 2 or room, tile.strips // 2)
        return next((count for count in range(most, 0, -1) if tile.strips % count == 0), None)

    def _staged(self, call: OpCall, tile: SwizzledTile, strips: int) -> S.Stmt:
        """The copy through shared tiles of `strips` strips each: two, if there is room, that take turns."""
        part = replace(tile, columns=strips * tile.strip)
        count = tile.strips // strips
        size = part.strips * part.strip_bytes
        buffers = []
        for _number in range(min(2, count, self._room_here() // size)):
            buffers.append(self._buffer(call.region("dst").source, part))
            self._room -= size
        leaves = _Exit(self._launch, call, part, buffers, repeated=self._depth > 0)
        boxed = self._boxed(leaves.call(0, buffers[0]), part)
        if boxed is not None and self._depth and self._is_dealt_by_rows(call.region("src").source):
            leaves.group = WARPGROUP
            boxed = replace(boxed, rows=ROWS)
        if boxed is not None:
            self._maps.append(S.Bind(leaves.tensor, boxed.map(), call.span))
            self._ends += leaves.end()
        # What the engine still reads when the loop goes on shares no bytes with tiles of the next iteration.
        kept = {ASYNCHRONOUS: ALWAYS} if boxed is not None and self._depth else {}
        stmts: list[S.Stmt] = [S.AllocBuffer(buffer, kept, span=call.span) for buffer in buffers]
        for number in range(count):
            buffer = buffers[number % len(buffers)]
            filled = _by_instructions(call, regions.whole(buffer), number * part.columns)
            if boxed is None:
                stmts += [filled, leaves.call(number, buffer).to_stmt()]
            else:
                copy = replace(boxed, call=call, source=leaves.call(number, buffer).region("dst"), target=buffer)
                stmts += [*leaves.before(number, buffer), filled, *leaves.by_boxes(copy, last=number == count - 1)]
        return visit.sequence(stmts, call.span)

    def _is_dealt_by_rows(self, fragment: ir.Var) -> bool:
        """Whether each of several warpgroups holds as many rows of a result as one instruction has, of its own."""
        products = (self._multiplier.of(call, self._elsewhere) for call in self._calls("tile.gemm"))
        makers = [product for product in products if product is not None and product.held[0].buffer.same_as(fragment)]
        groups = prod(self._launch.threads) // WARPGROUP
        return groups > 1 and all(
            isinstance(maker, WarpgroupProduct) and maker.down == groups and sizes(maker.call)[0] == ROWS * groups
            for maker in makers
        )

    def _buffer(self, tensor: ir.Var, tile: SwizzledTile) -> ir.Var:
        shape, scope = (tile.rows, tile.columns), regions.SHARED[0]
        buffer = tirx.decl_buffer(
            shape, str(tensor.dtype), f"{tensor.name}_tile", scope=scope, data_alignment=ALIGNMENT
        )
        self._context.state.setdefault(TILES, {})[buffer] = tile
        return buffer

    def _boxed(self, call: OpCall, tile: SwizzledTile) -> TensorCopy | None:
        """The copy as one of boxes: to a tensor of known strides, aligned, and touched by nothing else here."""
        marks = [stmt for stmt in visit.collect(self._launch.body, S.AttrStmt) if stmt.attr_key == ALIGNED]
        copy = boxed_store(call, tile, self._facts)
        if copy is None or copy.tensor not in {mark.node for mark in marks}:
            return None
        is_alone = uses(copy.tensor, self._launch.body, self._program) == Uses(operands=1)
        return copy if is_alone else None


def _before_other_programs(stmts: list[S.Stmt], ends: list[S.Stmt]) -> list[S.Stmt]:
    """The block's program with its ends; the copying thread's program stays last."""
    at = next(
        (at for at, stmt in enumerate(stmts) if is_foreign(stmt) and regions.constant(stmt.value) == 1), len(stmts)
    )
    return [*stmts[:at], *ends, *stmts[at:]]


class _Exit:
    """How the parts of a result leave: by the copy engine where the tensor is known to suit it, else by all threads.

    `group` neighbours have rows of their own, and wait for nobody else: those of a box.
    """

    def __init__(
        self, launch: launch_ir.Launch, call: OpCall, part: SwizzledTile, buffers: list[ir.Var], *, repeated: bool
    ) -> None:
        self._call, self._part, self._buffers, self._repeated = call, part, buffers, repeated
        self._thread, self._threads = launch.thread_vars[0], prod(launch.threads)
        self.group = self._threads
        self.tensor = named(f"{call.region('dst').source.name}_map")

    @property
    def _first(self) -> ir.Expr:
        return E.EQ(tirx.floormod(self._thread, int32(self.group)), int32(0))

    def _meeting(self, *tiles: ir.Var) -> S.Stmt:
        is_whole = self.group == self._threads
        return barrier(self._call.span) if is_whole else barrier_of_groups(tiles, self.group, self._call.span)

    def call(self, number: int, buffer: ir.Var) -> OpCall:
        """The copy of a part from its tile."""
        dst = self._call.region("dst")
        *outer, last = dst.region
        width = E.IntImm(last.extent.ty, self._part.columns)
        shifted = ir.Range.from_min_extent(last.min + number * self._part.columns, width)
        args = {
            **self._call.args,
            "src": regions.whole(buffer),
            "dst": tirx.BufferRegion(dst.source, [*outer, shifted]),
        }
        return replace(self._call, args=args)

    def before(self, number: int, tile: ir.Var) -> list[S.Stmt]:
        """Wait until the tile that a part goes to is free.

        Nothing orders stores to one place but that the earlier has written; parts of one result are different places.
        """
        if number >= len(self._buffers):
            return self._waited(len(self._buffers) - 1, tile, read=True)
        return self._waited(0, *self._buffers, read=False) if self._repeated and number == 0 else []

    def by_boxes(self, copy: TensorCopy, *, last: bool) -> list[S.Stmt]:
        """The copy of a part by the engine."""
        stores: list[S.Stmt] = []
        row = tirx.floordiv(self._thread, int32(self.group)) * copy.rows if self.group < self._threads else int32(0)
        for strip in range(copy.strips):
            place = tirx.address_of(tirx.BufferLoad(copy.target, [row, int32(strip * copy.strip)]))
            stores.append(S.Evaluate(tma_store(self.tensor, place, *copy.coordinates(strip, row)), self._call.span))
        stores.append(S.Evaluate(tma_store_commit()))
        if last and not self._repeated:
            stores.append(S.Evaluate(tma_store_wait(0, read=True)))
        by_one = S.IfThenElse(self._first, visit.sequence(stores), None)
        noted = S.AttrStmt(int32(0), FOREIGN, int32(NOTED), by_one)
        return [_of_threads(S.Evaluate(fence_async())), self._meeting(copy.target), noted]

    def end(self) -> list[S.Stmt]:
        """No block ends before its tiles are read."""
        wait = S.IfThenElse(self._first, S.Evaluate(tma_store_wait(0, read=True)), None)
        return [_of_threads(wait)] if self._repeated else []

    def _waited(self, pending: int, *tiles: ir.Var, read: bool) -> list[S.Stmt]:
        wait = S.IfThenElse(self._first, S.Evaluate(tma_store_wait(pending, read=read)), None)
        return [_of_threads(wait), self._meeting(*tiles)]


def _of_threads(*stmts: S.Stmt) -> S.Stmt:
    return S.AttrStmt(int32(0), FOREIGN, int32(0), visit.sequence(list(stmts)))


def _is_operand_load(call: OpCall, held: set[ir.Var]) -> bool:
    """Whether a copy reads all of a shared tile into a fragment that instructions prescribe."""
    src, dst = call.region("src"), call.region("dst")
    is_shared = regions.scope(src.source) in regions.SHARED and len(src.region) == len(dst.region) == 2
    return dst.source in held and is_shared and regions.is_whole(src) and regions.is_whole(dst)


def _by_instructions(call: OpCall, part: ir.TensorRegion | None = None, first: int = 0) -> S.Stmt:
    """The copy, marked as one that instructions may make; of the columns from `first` on that `part` has room for."""
    if part is None or list(part.region)[-1].extent == list(call.region("src").region)[-1].extent:
        stmt = (call if part is None else replace(call, args={**call.args, "dst": part})).to_stmt()
        return S.AttrStmt(stmt.value, STORE, int32(1), stmt, call.span)
    marked = replace(call, args={**call.args, "dst": part}, attrs={**call.attrs, FIRST_COLUMN: first})
    src, dst = Tile(call.region("src")), Tile(part)
    width = regions.constant(list(part.region)[-1].extent) or 0

    def element(index: Sequence[ir.Expr]) -> S.Stmt:
        row, column = index
        within = E.And(E.GE(column, int32(first)), E.LT(column, int32(first + width)))
        return S.IfThenElse(within, dst.store(src.load(index), [row, column - first]), None)

    return S.AttrStmt(marked.to_stmt().value, STORE, int32(1), parallel(src.extents, element, call.span), call.span)


def _view(stmt: S.Evaluate) -> OpCall:
    return view(stmt, OPS)
