"""How this backend's pipeline differs from the default: blocks have threads, those of SIMT functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_ascend.passes.note_grid import NoteGrid
from tile_ascend.passes.use_copy_engines import UseCopyEngines
from tile_ascend.passes.use_cube import UseCube
from tile_core.passes.pipeline import insert_after
from tile_core.passes.threads import thread_edits
from tile_core.printer.simt import NATIVE

if TYPE_CHECKING:
    from tile_core.passes.base import Edit
    from tile_core.targets import Target

STORED = frozenset({"bfloat16"})
"""The dtypes that are converted by one instruction, and computed on in float32."""


def edits(_target: Target) -> tuple[Edit, ...]:
    """The edits for any Ascend target."""
    return (
        *thread_edits(NATIVE, stored=STORED),
        insert_after("group_threads", UseCube(), UseCopyEngines()),
        insert_after("name_parameters", NoteGrid()),
    )
