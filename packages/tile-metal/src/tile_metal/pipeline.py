"""How this backend's pipeline differs from the default: its blocks have threads, and matrix units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.passes.threads import thread_edits
from tile_core.printer.simt import NATIVE
from tile_metal.matrix import SimdgroupMatrices

if TYPE_CHECKING:
    from tile_core.passes.base import Edit
    from tile_core.targets import Target


def edits(_target: Target) -> tuple[Edit, ...]:
    """The edits for any Apple GPU."""
    return thread_edits(NATIVE, SimdgroupMatrices())
