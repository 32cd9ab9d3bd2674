"""What the toy backend does differently from the default pipeline."""

from __future__ import annotations

from tile_core.passes.legalize_bounds import LegalizeBounds
from tile_core.passes.lower_scalar_ops import LowerScalarOps
from tile_core.passes.pipeline import Edit, replace
from tile_core.targets import Target
from tile_toy.printer import TOY_C


def edits(target: Target) -> tuple[Edit, ...]:
    """Tiles lie in the memory of the process, so they are guarded like tensors; what the printer lists stays a call."""
    return (
        replace("legalize_bounds", LegalizeBounds(every_scope=True)),
        replace("lower_scalar_ops", LowerScalarOps(native=frozenset(TOY_C.calls))),
    )
