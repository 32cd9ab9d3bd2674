"""Cores walk over the blocks of a grid, so a kernel computes the extents of its grid, and its body has to mention them.

What only the host needs is no parameter of a kernel. An attribute around the body names each extent that is no
constant; `launches.py` takes it off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes.base import PassContext

GRID = "tile.ascend.grid"


@dataclass(frozen=True)
class NoteGrid:
    """See the module."""

    name: ClassVar[str] = "note_grid"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return func.with_body(visit.mutate(func.body, (S.For, _launch)), func.span)


def _launch(loop: S.For, mutator: Any) -> S.Stmt:
    if not launch_ir.is_launch(loop):
        return mutator.default_mutate(loop)
    launch = launch_ir.from_stmt(loop)
    body = launch.body
    for extent in launch.grid_extents:
        if constant(extent) is None:
            body = S.AttrStmt(tirx.IntImm("int32", 0), GRID, extent, body, body.span)
    return replace(launch, body=body).to_stmt()


def without_notes(body: S.Stmt) -> S.Stmt:
    """The body of a launch without the attributes around it."""
    while isinstance(body, S.AttrStmt) and body.attr_key == GRID:
        body = body.body
    return body
