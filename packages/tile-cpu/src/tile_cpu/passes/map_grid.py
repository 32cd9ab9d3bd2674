"""Turn each launch into one loop over its blocks, x fastest, marked for the cores.

A block has no threads here: it is one sequential program, so the three thread loops fall away (`check_semantics` has
refused kernels that read a thread index). The loop is `PARALLEL` and annotated `tile.grid`; `split_host` moves its
body into a function of its own that is called with ranges of blocks. Block indices are computed from one number
rather than from nested loops, so that any range of blocks can be handed to a core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import launch, visit
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.passes.base import PassContext
from tile_cpu.passes.block_work import block_work

GRID = "tile.grid"
"""Marks the loop over blocks. Its value is the work of one block in stored elements, 0 where that is not known."""


@dataclass(frozen=True)
class MapGrid:
    """Replace launch nests by loops over blocks.

    The report says how many blocks each launch has, where that is constant.
    """

    name: ClassVar[str] = "map_grid"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        grids: list[int | None] = []

        def loop(stmt: S.For, mutator: Any) -> S.Stmt:
            if not launch.is_launch(stmt):
                return mutator.default_mutate(stmt)
            nest = launch.from_stmt(stmt)
            if nest.prelude.strip():
                raise UnsupportedOnTargetError(
                    "the kernel has a prelude of source text, but no source is printed for the CPU",
                    remedy="leave prelude out on this target",
                    span=from_tvm(nest.span),
                )
            extents = [constant(extent) for extent in nest.grid_extents]
            grids.append(None if None in extents else math.prod(extent or 0 for extent in extents))
            return blocks(nest)

        body = visit.mutate(func.body, (S.For, loop))
        context.report["grid"] = grids
        return func.with_body(body, func.span)


def blocks(nest: launch.Launch) -> S.For:
    """The loop over the blocks of one launch."""
    total: ir.Expr = tirx.IntImm("int64", 1)
    for extent in nest.grid_extents:
        total = total * _count(extent)
    block = tirx.Var("block", "int64")
    names = _coordinates(block, nest)
    body = visit.sequence([*names, nest.body], nest.span)
    zero = tirx.IntImm("int64", 0)
    marks = {GRID: block_work(nest.body) or 0}
    return S.For(block, zero, total, S.ForKind.PARALLEL, body, annotations=marks, span=nest.span)


def _coordinates(block: ir.Var, nest: launch.Launch) -> list[S.Stmt]:
    binds: list[S.Stmt] = []
    rest: ir.Expr = block
    last = len(nest.grid_vars) - 1
    for axis, (var, extent) in enumerate(zip(nest.grid_vars, nest.grid_extents, strict=True)):
        # A grid with an extent of 0 runs no block; folding must not see a division by it.
        divisor = tirx.IntImm("int64", 1) if constant(extent) == 0 else _wide(extent)
        index = rest if axis == last else tirx.floormod(rest, divisor)
        rest = tirx.floordiv(rest, divisor)
        binds.append(S.Bind(var, _narrow(index, str(var.ty.dtype)), nest.span))
    return binds


def _count(extent: ir.Expr) -> ir.Expr:
    """The blocks along one axis: none where the extent is negative."""
    wide = _wide(extent)
    return wide if constant(wide) is not None else tirx.max(wide, tirx.IntImm("int64", 0))


def _wide(expr: ir.Expr) -> ir.Expr:
    number = constant(expr)
    if number is not None:
        return tirx.IntImm("int64", number)
    return expr if str(expr.ty.dtype) == "int64" else tirx.Cast("int64", expr)


def _narrow(expr: ir.Expr, dtype: str) -> ir.Expr:
    return expr if dtype == "int64" else tirx.Cast(dtype, expr)
