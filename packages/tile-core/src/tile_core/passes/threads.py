"""The passes of a target whose blocks have threads: what such a backend puts around the default pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.ops.base import LowerContext, OpCall
from tile_core.ops.build import Tile, parallel
from tile_core.ops.print import PRINT
from tile_core.ops.threads import thread_call
from tile_core.passes.base import Edit
from tile_core.passes.check_extents import CheckExtents
from tile_core.passes.coded_tiles import CodedOperands, no_forms
from tile_core.passes.drop_unused_names import DropUnusedNames
from tile_core.passes.group_threads import GroupThreads
from tile_core.passes.infer_layouts import InferLayouts
from tile_core.passes.insert_barriers import InsertBarriers, barrier
from tile_core.passes.lower_scalar_ops import LowerScalarOps
from tile_core.passes.mark_reductions import MarkReductions
from tile_core.passes.matrix import MarkMatrixOps, MatrixUnits
from tile_core.passes.name_parameters import NameParameters
from tile_core.passes.pack_lanes import PackLanes
from tile_core.passes.pack_narrow import PackNarrow
from tile_core.passes.partition_loops import PartitionLoops
from tile_core.passes.pipeline import drop, insert_after, insert_before
from tile_core.passes.place_tiles import MarkPlacedTiles, PlaceTiles
from tile_core.passes.plan_shared_memory import PlanSharedMemory
from tile_core.passes.rasterize_blocks import RasterizeBlocks
from tile_core.passes.roll_loops import RollLoops
from tile_core.passes.specialize_alignment import SpecializeAlignment
from tile_core.passes.swizzle_tiles import SwizzleTiles
from tile_core.passes.thread_reducers import REDUCER_FINALIZE, REDUCER_INIT
from tile_core.passes.widen_stored import WidenStored


def keep_barrier(call: OpCall, _context: LowerContext) -> S.Stmt:
    """Lowering of `tile.sync_threads` for blocks with threads: the barrier itself, or the one it names."""
    return thread_call(call, "named_barrier") if "barrier_id" in call.attrs else barrier(call.span)


def keep_for_threads(call: OpCall, _context: LowerContext) -> S.Stmt:
    """Lowering of an op that each thread carries out for itself."""
    return thread_call(call)


def print_tile(call: OpCall, context: LowerContext) -> S.Stmt:
    """Lowering of `tile.print` for blocks with threads: a fragment is gathered in shared memory first."""
    src = Tile(call.region("src"))
    if src.scope != regions.FRAGMENT:
        assert PRINT.lower is not None
        return PRINT.lower(call, context)
    gathered = tirx.decl_buffer(src.extents, str(src.buffer.dtype), src.name, scope=regions.SHARED[0])
    copy = parallel(src.extents, lambda index: Tile(regions.whole(gathered)).store(src.load(index), index), call.span)
    printed = replace(call, args={"src": regions.whole(gathered)})
    return visit.sequence([S.AllocBuffer(gathered, span=call.span), copy, printed.to_stmt()], call.span)


def keep_reducer_init(call: OpCall, _context: LowerContext) -> S.Stmt:
    """Lowering of `tile.reducer_init` for blocks that have threads: each thread keeps a partial result."""
    return _kept(call, REDUCER_INIT)


def keep_reducer_finalize(call: OpCall, _context: LowerContext) -> S.Stmt:
    """Lowering of `tile.reducer_finalize` likewise: the partial results are combined over the block."""
    return _kept(call, REDUCER_FINALIZE)


def _kept(call: OpCall, name: str) -> S.Stmt:
    arguments = [call.args[operand.name] for operand in call.op.operands]
    kept = ir.Call(tile_op(name), arguments, attrs=dict(call.attrs), ret_ty="void", span=call.span)
    return S.Evaluate(kept, call.span)


def thread_edits(
    native: frozenset[str] = frozenset(),
    units: MatrixUnits | None = None,
    pairs: Mapping[str, frozenset[str]] = MappingProxyType({}),
    stored: frozenset[str] = frozenset(),
    multiplied: frozenset[str] = frozenset(),
    forms: CodedOperands = no_forms,
) -> tuple[Edit, ...]:
    """The edits that turn the default pipeline into one for threads.

    `native` are the scalar ops that the backend prints itself. They are expanded after the partition, which makes some.
    `units` are the target's matrix instructions; `pairs` the operations that it prints for two lanes at once, by dtype
    (see `PackLanes`); `stored` the dtypes that it has no arithmetic for; `multiplied` those of four bits whose bytes
    matrix instructions take; `forms` how they take floats of six and four bits.
    """
    return (
        drop("lower_scalar_ops"),
        insert_after(
            "check_semantics", CheckExtents(), PackNarrow(multiplied, forms), MarkPlacedTiles(), GroupThreads()
        ),
        insert_before("lower_tile_ops", MarkReductions(), *([MarkMatrixOps()] if units is not None else [])),
        insert_before("legalize_bounds", PlaceTiles(), InferLayouts(units)),
        insert_after(
            "legalize_bounds",
            *([WidenStored(stored)] if stored else []),
            PartitionLoops(units),
            *([PackLanes(pairs)] if pairs else []),
            LowerScalarOps(native),
            SwizzleTiles(),
            PlanSharedMemory(),
            InsertBarriers(),
            RasterizeBlocks(),
            SpecializeAlignment(),
        ),
        insert_after("simplify", DropUnusedNames(), RollLoops(), NameParameters()),
    )
