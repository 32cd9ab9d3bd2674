"""Tiles that a block fills for a product, in two versions, so that it fills one while the other is multiplied.

An operand of four bits becomes a tile of eight before each product (`tile_core.passes.staged_operands`). With one such
tile the block waits for the product of an iteration before the next one begins to fill it, and the tensor cores wait
for the block in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ops import OPS
from tile_core.ops.base import view
from tile_core.passes.plan_shared_memory import size_in_bytes
from tile_core.passes.staged_operands import STAGED
from tile_core.passes.swizzle_tiles import ALIGNMENT
from tile_core.passes.thread_scope import int32
from tile_cuda.passes.pipelines import Pipeline, statements_of

VERSIONS = 2


def alternating(
    launch: launch_ir.Launch, pipelines: Sequence[Pipeline], overlaps: Callable[[S.Stmt], bool], room: int
) -> Mapping[ir.Var, ir.Var]:
    """The tiles that products of pipelined loops want in two versions, each with the tile of both.

    None where the shared memory of a block, of `room` bytes, does not hold both and the rings beside all other tiles.
    """
    staged = {tile for pipeline in pipelines for tile in _staged(pipeline, overlaps)}
    copied = {copy.target for pipeline in pipelines for copy in pipeline.copies}
    tiles = {alloc.buffer for alloc in visit.collect(launch.body, S.AllocBuffer)} - copied
    held = sum(size_in_bytes(tile) for tile in tiles if regions.scope(tile) in regions.SHARED)
    rings = sum(pipeline.stages * copy.bytes for pipeline in pipelines for copy in pipeline.copies)
    if held + sum(map(size_in_bytes, staged)) + rings > room:
        return {}
    return {tile: _both(tile) for tile in staged}


def _staged(pipeline: Pipeline, overlaps: Callable[[S.Stmt], bool]) -> Iterator[ir.Var]:
    """The tiles that are filled for one product each, which stands in the loop itself."""
    for stmt in statements_of(pipeline.loop):
        if overlaps(stmt):
            call = view(stmt, OPS)
            yield from (call.region(side).source for side in "ab" if call.attrs.get(STAGED.format(side)))


def _both(tile: ir.Var) -> ir.Var:
    shape = [int32(VERSIONS), *tile.shape]
    scope = regions.scope(tile)
    return tirx.decl_buffer(shape, str(tile.dtype), str(tile.name), scope=scope, data_alignment=ALIGNMENT)
