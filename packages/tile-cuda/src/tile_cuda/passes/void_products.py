"""Products of a pipeline that add nothing in its first iteration, so that none need be made there.

A program that multiplies one step late, so that its product runs beside the next step's work, multiplies zeros in the
first step: the operand in registers was cleared before the loop, and the tile that it meets lies beyond its tensor,
which reads as zeros. Zeros times zeros added to a cleared result leave it as it is, bit by bit. All three are proved
here; a product of which one is not keeps its first iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions
from tile_core.ir.analyzer import Analyzer
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.passes.accesses import substitute
from tile_cuda.passes.index_facts import index_facts
from tile_cuda.passes.pipelines import Pipeline, statements_of
from tile_cuda.passes.sharing import around
from tile_cuda.passes.tensor_copies import TensorCopy, touched


def void_at_first(launch: launch_ir.Launch, pipeline: Pipeline) -> frozenset[int]:
    """Positions, among the statements of the pipeline's loop, of the products that its first iteration can do without.

    None where the loop may have no iteration.
    """
    before = statements_before(launch, pipeline.loop)
    extent = pipeline.loop.extent
    if not index_facts(launch).can_prove(E.GT(extent, E.IntImm(extent.ty, 0))):
        return frozenset()
    statements = statements_of(pipeline.loop)
    return frozenset(
        position
        for position, stmt in enumerate(statements)
        if op_name(stmt) == "tile.gemm" and _is_void(_view(stmt), statements[:position], before, pipeline)
    )


def statements_before(launch: launch_ir.Launch, loop: S.For) -> list[S.Stmt]:
    """The statements before the loop, in the sequence that it stands in."""
    path = around(launch.body, loop)
    parent = path[-2] if len(path) > 1 else None
    if not isinstance(parent, S.SeqStmt):
        return []
    parts = list(parent.seq)
    return parts[: next(at for at, part in enumerate(parts) if part.same_as(loop))]


def _is_void(call: OpCall, earlier: Sequence[S.Stmt], before: Sequence[S.Stmt], pipeline: Pipeline) -> bool:
    left, right, result = (call.region(side).source for side in "abc")
    copies = [copy for copy in pipeline.copies if copy.target.same_as(right)]
    accumulates = regions.constant(call.args["clear_accum"]) == 0
    if not accumulates or not copies or any({left, result} & touched(stmt) for stmt in earlier):
        return False
    are_cleared = all(cleared_by(tile, before) is not None for tile in (left, result))
    return are_cleared and _is_outside(copies[0], _first(pipeline.loop))


def cleared_by(tile: ir.Var, before: Sequence[S.Stmt]) -> S.Stmt | None:
    """The last of the statements that touch the fragment, where that fills it with zeros."""
    last = next((stmt for stmt in reversed(before) if tile in touched(stmt)), None)
    if last is None or op_name(last) != "tile.fill" or regions.scope(tile) != regions.FRAGMENT:
        return None
    call = _view(last)
    value = call.args["value"]
    is_zero = isinstance(value, tirx.IntImm | tirx.FloatImm) and str(value.value) in ("0", "0.0")
    return last if is_zero and regions.is_whole(call.region("dst")) else None


def _first(loop: S.For) -> dict[ir.Var, ir.Expr]:
    """What the loop's variable and the names that its body binds are in the first iteration."""
    values: dict[ir.Var, ir.Expr] = {loop.loop_var: loop.min}
    for stmt in statements_of(loop):
        if isinstance(stmt, S.Bind):
            values[stmt.var] = substitute(stmt.value, values)
    return values


def _is_outside(copy: TensorCopy, values: dict[ir.Var, ir.Expr]) -> bool:
    """Whether every element that is copied where variables have these values lies beyond the tensor, along one axis."""
    analyzer = Analyzer()
    for axis, extent in zip(copy.source.region, copy.tensor.shape, strict=True):
        first = substitute(axis.min, values)
        below, above = E.LE(first + axis.extent, E.IntImm(axis.min.ty, 0)), E.GE(first, extent)
        if analyzer.can_prove(below) or analyzer.can_prove(above):
            return True
    return False


def _view(stmt: S.Stmt) -> OpCall:
    return view(stmt, OPS)
