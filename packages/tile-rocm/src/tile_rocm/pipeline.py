"""How this backend's pipeline differs from the default: its blocks have threads, matrix cores and copies ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.passes.allow_rounding import AllowRounding
from tile_core.passes.load_ahead import LoadAhead
from tile_core.passes.pipeline import insert_after
from tile_core.passes.threads import thread_edits
from tile_core.printer.simt import NATIVE
from tile_rocm.instructions.shapes import instructions
from tile_rocm.matrix.units import MatrixCores
from tile_rocm.narrow import FLOAT8
from tile_rocm.passes.check_instructions import CheckInstructions
from tile_rocm.target import capabilities

if TYPE_CHECKING:
    from tile_core.passes.base import Edit
    from tile_core.targets import Target


def edits(target: Target) -> tuple[Edit, ...]:
    """The edits for an AMD target: its matrix cores; the width of a wave is a fact that the passes ask."""
    facts = capabilities(target)
    units = MatrixCores(facts.warp_size, instructions(facts))
    return (
        *thread_edits(NATIVE, units, stored=frozenset(FLOAT8)),
        insert_after("check_semantics", CheckInstructions(units.instructions)),
        insert_after("group_threads", AllowRounding(), LoadAhead()),
    )
