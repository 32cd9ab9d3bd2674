"""Number the blocks of a grid in panels, so that blocks that run at the same time share what they read.

`T.use_swizzle(panel_size)` asks for it. With the order `row`, `panel_size` rows of blocks are a panel, which is walked
column by column; with `column` the axes change places. It is a renumbering: every block still runs once, and blocks of
one cluster stay neighbours, since clusters are what is numbered. It is done late, when bounds have been proved of the
indices as they were.
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
    sizes = launch.cluster_dims[:2]
    across, down = (_over(extent, size) for extent, size in zip(launch.grid_extents[:2], sizes, strict=True))
    number = _over(fresh[0], sizes[0]) + _over(fresh[1], sizes[1]) * across
    places = panels(number, (across, down), max(1, panel // sizes[1 if order == "row" else 0]), order)
    binds: list[S.Stmt] = [
        S.Bind(launch.grid_vars[axis], _within(place, fresh[axis], sizes[axis]), launch.span)
        for axis, place in enumerate(places)
    ]
    rest = [S.Bind(var, raw, launch.span) for var, raw in zip(launch.grid_vars[2:], fresh[2:], strict=True)]
    return replace(launch, grid_vars=fresh, body=visit.sequence([*binds, *rest, launch.body], launch.span))


def panels(number: ir.Expr, extents: tuple[ir.Expr, ir.Expr], lines: int, order: str) -> tuple[ir.Expr, ir.Expr]:
    """The indices along x and y of block `number` of a grid that is walked in panels of `lines` rows or columns."""
    across, down = extents
    tall, wide = (down, across) if order == "row" else (across, down)
    strip = wide * lines
    index = tirx.floordiv(number, strip)
    within = tirx.floormod(number, strip)
    height = tirx.min(_like(lines, tall), tall - index * lines)
    along, beside = tirx.floordiv(within, height), index * lines + tirx.floormod(within, height)
    return (along, beside) if order == "row" else (beside, along)


def _over(value: ir.Expr, size: int) -> ir.Expr:
    return value if size == 1 else tirx.floordiv(value, _like(size, value))


def _within(place: ir.Expr, raw: ir.Var, size: int) -> ir.Expr:
    """The index of the block that is `raw` along the axis, in the cluster at `place`."""
    return place if size == 1 else place * size + tirx.floormod(raw, _like(size, raw))


def _like(value: int, expr: ir.Expr) -> ir.Expr:
    return tirx.IntImm(expr.ty, value)
