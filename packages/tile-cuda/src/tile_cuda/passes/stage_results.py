"""Results of matrix instructions go to memory through shared tiles.

The instructions leave two neighbours of a row in a thread, so that a warp that stored them would write eight rows in
pieces of 16 bytes. A copy of such a fragment to a tensor is therefore made in two: into a shared tile in swizzled
order, without bank conflicts, and from there in whole vectors along the rows. Tiles into which the author copies such a
fragment are laid out in the same way.

Runs on tile ops, after `specialize_warps`. A result for which shared memory has no room is stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import swizzled
from tile_core.ops.base import OpCall, op_name, view
from tile_core.passes.base import PassContext
from tile_core.passes.matrix import MatrixUnits, Multiplier
from tile_core.passes.nests import is_foreign
from tile_core.passes.plan_shared_memory import ONCE, asynchronous, size_in_bytes
from tile_core.passes.swizzle_tiles import ALIGNMENT, TILES


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
        self._room = self._free_bytes()

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

        def attribute(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
            return stmt if is_foreign(stmt) else mutator.default_mutate(stmt)

        body = visit.mutate(self._launch.body, (S.Evaluate, evaluate), (S.AttrStmt, attribute))
        return replace(self._launch, body=body).to_stmt()

    def _calls(self, name: str) -> Iterator[OpCall]:
        return (_view(stmt) for stmt in visit.collect(self._launch.body, S.Evaluate) if op_name(stmt) == name)

    def _free_bytes(self) -> int:
        """Shared memory that nothing else may need at the end; rings that are filled once are free by then."""
        once = {buffer for buffer, kind in asynchronous(self._launch.body).items() if kind == ONCE}
        tiles = (alloc.buffer for alloc in visit.collect(self._launch.body, S.AllocBuffer))
        used = sum(
            size_in_bytes(tile) + ALIGNMENT
            for tile in tiles
            if regions.scope(tile) in regions.SHARED and tile not in once
        )
        return int(self._context.capabilities.shared_bytes or 0) - used

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
            return None
        size = rows * columns * tile.itemsize
        if regions.scope(dst.source) != regions.GLOBAL or size > self._room:
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
                replace(call, args={**call.args, "dst": whole}).to_stmt(),
                replace(call, args={**call.args, "src": whole}).to_stmt(),
            ],
            call.span,
        )


def _view(stmt: S.Evaluate) -> OpCall:
    from tile_core.ops import OPS

    return view(stmt, OPS)
