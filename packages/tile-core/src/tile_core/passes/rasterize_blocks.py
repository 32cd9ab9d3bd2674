"""Number the blocks of a grid in panels, so that blocks that run at the same time share what they read.

`T.use_swizzle(panel_size)` asks for it. With the order `row`, `panel_size` rows of blocks are a panel, which is walked
column by column; with `column` the axes change places. It is a renumbering: every block still runs once. It is done
late, when bounds have been proved of the indices as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.passes.base import PassContext

KEY = "tile.swizzle"


@dataclass(frozen=True)
class RasterizeBlocks:
    """See the module."""

    name: ClassVar[str] = "rasterize_blocks"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def place(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            wishes = [stmt for stmt in visit.collect(launch.body, S.AttrStmt) if stmt.attr_key == KEY]
            if not wishes or len(launch.grid_vars) < 2:
                return loop
            return _renumbered(launch, int(wishes[0].value), str(wishes[0].node.value)).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, place)), func.span)


def _renumbered(launch: launch_ir.Launch, panel: int, order: str) -> launch_ir.Launch:
    fresh = tuple(tirx.Var(f"block_{axis}", var.ty) for axis, var in zip("xyz", launch.grid_vars, strict=False))
    number = fresh[0] + fresh[1] * launch.grid_extents[0]
    first, second = (1, 0) if order == "row" else (0, 1)
    tall, wide = (launch.grid_extents[axis] for axis in (first, second))
    strip = wide * panel
    index = tirx.floordiv(number, strip)
    within = tirx.floormod(number, strip)
    height = tirx.min(_like(panel, tall), tall - index * panel)
    binds: list[S.Stmt] = [
        S.Bind(launch.grid_vars[first], index * panel + tirx.floormod(within, height), launch.span),
        S.Bind(launch.grid_vars[second], tirx.floordiv(within, height), launch.span),
    ]
    rest = [S.Bind(var, raw, launch.span) for var, raw in zip(launch.grid_vars[2:], fresh[2:], strict=True)]
    return replace(launch, grid_vars=fresh, body=visit.sequence([*binds, *rest, launch.body], launch.span))


def _like(value: int, expr: ir.Expr) -> ir.Expr:
    return tirx.IntImm(expr.ty, value)
