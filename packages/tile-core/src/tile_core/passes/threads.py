"""The passes of a target whose blocks have threads: what such a backend puts around the default pipeline."""

from __future__ import annotations

from tile_core.passes.infer_layouts import InferLayouts
from tile_core.passes.insert_barriers import InsertBarriers
from tile_core.passes.mark_reductions import MarkReductions
from tile_core.passes.partition_loops import PartitionLoops
from tile_core.passes.pipeline import Edit, insert_after, insert_before
from tile_core.passes.plan_shared_memory import PlanSharedMemory


def thread_edits() -> tuple[Edit, ...]:
    """The edits that turn the default pipeline into one for threads."""
    return (
        insert_before("lower_tile_ops", MarkReductions()),
        insert_before("legalize_bounds", InferLayouts()),
        insert_after("legalize_bounds", PartitionLoops(), PlanSharedMemory(), InsertBarriers()),
    )
