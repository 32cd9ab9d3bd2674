"""Refuse tiles whose size only the call knows, before a pass divides a tile among threads or counts its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import TileExtentError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.spans import from_tvm
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class CheckExtents:
    """See the module.

    Raises:
        TileExtentError: a shared, fragment or local tile with an extent that the call brings along.
    """

    name: ClassVar[str] = "check_extents"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function, unchanged."""
        for launch in launch_ir.launches(func.body):
            for stmt in visit.collect(launch, S.AllocBuffer):
                _require_constant(stmt)
        return func


def _require_constant(stmt: S.AllocBuffer) -> None:
    unknown = [extent for extent in stmt.buffer.shape if regions.constant(extent) is None]
    if unknown and regions.scope(stmt.buffer) != regions.GLOBAL:
        raise TileExtentError(
            f"the extent {unknown[0]} of {stmt.buffer.name} is not known before the kernel is called",
            remedy="allocate the largest size that is needed",
            span=from_tvm(stmt.span),
        )
