"""The passes of the CPU, as edits to the default pipeline."""

from __future__ import annotations

from tile_core.passes.base import Edit
from tile_core.passes.drop_guard_marks import DropGuardMarks
from tile_core.passes.legalize_bounds import LegalizeBounds
from tile_core.passes.pipeline import insert_after, insert_before, replace
from tile_core.targets import Target
from tile_cpu.passes.call_libm import CallLibm
from tile_cpu.passes.expand_math import ExpandMath
from tile_cpu.passes.forward_copies import ForwardCopies
from tile_cpu.passes.import_functions import ImportFunctions
from tile_cpu.passes.legalize_carried_types import LegalizeCarriedTypes
from tile_cpu.passes.legalize_compare import LegalizeCompare
from tile_cpu.passes.lower_intrinsics import LowerIntrinsics
from tile_cpu.passes.lower_loop_control import LowerLoopControl
from tile_cpu.passes.map_grid import MapGrid
from tile_cpu.passes.mark_factors import MarkFactors
from tile_cpu.passes.mark_inside import MarkInside
from tile_cpu.passes.plan_memory import PlanMemory
from tile_cpu.passes.report_fallbacks import ReportFallbacks
from tile_cpu.passes.share_operands import ShareOperands
from tile_cpu.passes.split_masks import SplitMasks
from tile_cpu.passes.stream_operands import StreamOperands
from tile_cpu.passes.vectorize_loops import VectorizeLoops


def edits(target: Target) -> tuple[Edit, ...]:
    """What the CPU does differently.

    Tiles are guarded like tensors: a stray store to a tile would damage the memory of the process.
    """
    return (
        insert_before(
            "lower_tile_ops", ReportFallbacks(), StreamOperands(), ForwardCopies(), MarkInside(), MarkFactors()
        ),
        insert_after("lower_tile_ops", ShareOperands()),
        replace("legalize_bounds", LegalizeBounds(every_scope=True)),
        insert_after(
            "simplify",
            LegalizeCarriedTypes(),
            LowerLoopControl(),
            MapGrid(),
            SplitMasks(),
            CallLibm(),
            ExpandMath(),
            VectorizeLoops(),
            ImportFunctions(),
            LowerIntrinsics(),
            DropGuardMarks(),
            PlanMemory(),
            LegalizeCompare(),
        ),
    )
