"""How this backend's pipeline differs from the default: blocks have threads, tensor cores and asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.passes.allow_rounding import AllowRounding
from tile_core.passes.pipeline import insert_after
from tile_core.passes.threads import thread_edits
from tile_core.printer.simt import NATIVE
from tile_cuda import functions
from tile_cuda.matrix.units import TensorCores
from tile_cuda.narrow import FLOAT8, PAIRS
from tile_cuda.passes.add_results import AddResults
from tile_cuda.passes.assign_roles import AssignRoles
from tile_cuda.passes.check_instructions import CheckInstructions
from tile_cuda.passes.check_launch import CheckLaunch
from tile_cuda.passes.copy_ahead import CopyAhead
from tile_cuda.passes.lower_asynchrony import LowerAsynchrony
from tile_cuda.passes.lower_products import LowerProducts
from tile_cuda.passes.lower_tensor_memory import LowerTensorMemory
from tile_cuda.passes.note_descriptors import NoteDescriptors
from tile_cuda.passes.place_tensor_memory import PlaceTensorMemory
from tile_cuda.passes.schedule_tiles import ScheduleTiles
from tile_cuda.passes.specialize_warps import SpecializeWarps
from tile_cuda.passes.stage_results import StageResults
from tile_cuda.passes.use_tensor_memory import UseTensorMemory
from tile_cuda.passes.widen_nibbles import WidenNibbles
from tile_cuda.target import capabilities

if TYPE_CHECKING:
    from tile_core.passes.base import Edit
    from tile_core.targets import Target


def edits(target: Target) -> tuple[Edit, ...]:
    """The edits for a CUDA target: its tensor cores, and pairs of floats that it computes on, or converts to."""
    units = TensorCores(int(str(target.option("arch")).removeprefix("sm_")))
    computed = capabilities(target).dtypes
    pairs = {dtype: pair.operations for dtype, pair in PAIRS.items() if dtype in computed | FLOAT8.keys()}
    return (
        *thread_edits(NATIVE | functions.NATIVE, units, pairs, frozenset(FLOAT8), units.packed, units.forms),
        insert_after("check_semantics", CheckLaunch(), CheckInstructions(units.capability)),
        insert_after(
            "group_threads",
            AllowRounding(),
            NoteDescriptors(),
            UseTensorMemory(units),
            LowerProducts(units),
            LowerAsynchrony(units),
            SpecializeWarps(units),
            CopyAhead(units),
            AddResults(units),
            StageResults(units),
            LowerTensorMemory(units),
        ),
        insert_after("partition_loops", PlaceTensorMemory(), WidenNibbles()),
        insert_after("insert_barriers", AssignRoles(), ScheduleTiles()),
    )
