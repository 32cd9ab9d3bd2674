"""Multiply tensors where they are, when a loop copies tiles only to multiply them.

    for k in range(n):                        for k in range(0, n, f):
        copy(A[i, k * 64], A_tile)                if k + f <= n, and A and B hold f more tiles from there:
        copy(B[k * 64, j], B_tile)                    gemm(A[i:…, k * 64:…], B[k * 64:…, j:…], C)
        gemm(A_tile, B_tile, C)                   else:
                                                      the same loop over k … min(k + f, n) - 1

A core has no use for a copy of A, whose elements it broadcasts, and brings B into its own form anyway. Several steps
of the loop become one, which reads and writes C less often. Where a tile reaches beyond its tensor, the loop stays as
it was and pads with zeros.

The sums are the same numbers in the same order: C is in the dtype of the sums, so that it rounds nothing between steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.regions import constant
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.gemm import transposed
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.passes.affine import affine

_SUMS = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True)
class StreamOperands:
    """`depth_bytes` is the length along K, in bytes of an element of A, that one multiplication should have."""

    depth_bytes: int = 2048
    name: ClassVar[str] = "stream_operands"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        uses = _uses(func)

        def loop(stmt: S.For, mutator: Any) -> S.Stmt:
            stmt = mutator.default_mutate(stmt)
            match = _match(stmt, uses)
            return stmt if match is None else _streamed(stmt, match, self.depth_bytes)

        return visit.mutate(func, (S.For, loop))


@dataclass(frozen=True)
class _Operand:
    """An operand of the multiplication: the tile, the region that is copied into it, the axis along K."""

    tile: ir.Var
    source: ir.TensorRegion
    axis: int


@dataclass(frozen=True)
class _Match:
    gemm: OpCall
    operands: dict[str, _Operand]


def _uses(func: tirx.PrimFunc) -> dict[ir.Var, int]:
    """In how many regions each buffer occurs; other accesses count as many."""
    found: dict[ir.Var, int] = {}
    for region in visit.collect(func.body, ir.TensorRegion):
        found[region.source] = found.get(region.source, 0) + 1
    for load in visit.collect(func.body, ir.TensorLoad):
        found[load.source] = found.get(load.source, 0) + 2
    for store in visit.collect(func.body, S.BufferStore):
        found[store.buffer] = found.get(store.buffer, 0) + 2
    return found


def _match(loop: S.For, uses: dict[ir.Var, int]) -> _Match | None:
    """The parts of a loop that copies two tiles and multiplies them, `None` for any other loop."""
    if loop.kind != S.ForKind.SERIAL or constant(loop.min) != 0 or (loop.step is not None and constant(loop.step) != 1):
        return None
    steps = list(loop.body.seq) if isinstance(loop.body, S.SeqStmt) else []
    if [op_name(step) for step in steps] != ["tile.copy", "tile.copy", "tile.gemm"]:
        return None
    *copies, gemm = (view(step, OPS) for step in steps)
    if constant(gemm.args["clear_accum"]) != 0 or str(Tile(gemm.region("c")).dtype) not in _SUMS:
        return None
    operands = {}
    for side in "ab":
        tile = gemm.region(side)
        copy = next((copy for copy in copies if copy.region("dst").source.same_as(tile.source)), None)
        if copy is None or uses[tile.source] != 2 or not (_is_whole(tile) and _is_whole(copy.region("dst"))):
            return None
        operand = _operand(loop, copy, (side == "a") != transposed(gemm, side))
        if operand is None:
            return None
        operands[side] = operand
    return _Match(gemm, operands)


def _operand(loop: S.For, copy: OpCall, last: bool) -> _Operand | None:
    """The operand that `copy` brings, if consecutive iterations copy regions that lie next to each other along K."""
    src, dst = Tile(copy.region("src")), Tile(copy.region("dst"))
    axis = src.rank - 1 if last else src.rank - 2
    same = src.rank >= 2 and dst.rank == 2 and src.shape[-2:] == dst.shape and set(src.shape[:-2]) <= {1}
    if not same or src.scope != regions.GLOBAL or src.dtype != dst.dtype:
        return None
    for at, start in enumerate(src.starts):
        moves = affine(start, loop.loop_var)
        if moves is None or moves.coefficient != (src.shape[axis] if at == axis else 0):
            return None
    return _Operand(dst.buffer, src.region, axis)


def _is_whole(region: ir.TensorRegion) -> bool:
    tile = Tile(region)
    return all(constant(start) == 0 for start in tile.starts) and all(
        constant(extent) == constant(size) is not None
        for extent, size in zip(tile.extents, tile.buffer.shape, strict=True)
    )


def _streamed(loop: S.For, match: _Match, depth_bytes: int) -> S.Stmt:
    a = Tile(match.operands["a"].source)
    step = a.shape[match.operands["a"].axis]
    assert step is not None
    factor = max(1, depth_bytes // (step * max(1, a.dtype.bits // 8)))
    steps = constant(loop.extent)
    if steps is not None:
        factor = _divisor(steps, factor)
    dtype = str(loop.loop_var.ty.dtype)
    block = tirx.Var(f"{loop.loop_var.name}_block", dtype)
    size = tirx.IntImm(dtype, factor)
    first = block * size
    wide = {side: _widened(operand, loop.loop_var, first, factor) for side, operand in match.operands.items()}
    gemm = replace(match.gemm, args={**match.gemm.args, **wide})
    ready = _all([first + size <= loop.extent, *_inside(wide.values())])
    inner = tirx.Var(str(loop.loop_var.name), dtype)
    body = _renamed(loop.body, loop.loop_var, first + inner)
    count = tirx.min(size, loop.extent - first)
    guarded = S.For(inner, tirx.IntImm(dtype, 0), count, S.ForKind.SERIAL, body, span=loop.span)
    choice = S.IfThenElse(ready, gemm.to_stmt(), guarded, loop.span)
    blocks = tirx.floordiv(loop.extent + (factor - 1), size)
    return rebuild.loop(loop, loop_var=block, extent=blocks, step=None, body=choice)


def _divisor(steps: int, most: int) -> int:
    """The largest number up to `most` that divides `steps`, if it is not much smaller; else `most`."""
    best = next((size for size in range(min(most, max(steps, 1)), 0, -1) if steps % size == 0), 1)
    return best if 2 * best > min(most, steps) else min(most, max(steps, 1))


def _inside(wide: Iterable[ir.TensorRegion]) -> Iterator[ir.Expr]:
    """That the regions lie within their tensors."""
    for region in wide:
        for axis, size in zip(region.region, region.source.shape, strict=True):
            yield axis.min >= tirx.IntImm(str(axis.min.ty.dtype), 0)
            yield axis.min + axis.extent <= size


def _widened(operand: _Operand, loop_var: ir.Var, first: ir.Expr, factor: int) -> ir.TensorRegion:
    """The region of `factor` iterations from iteration `first` on."""
    starts, extents = [], []
    for at, axis in enumerate(operand.source.region):
        starts.append(_renamed(axis.min, loop_var, first))
        extents.append(axis.extent * factor if at == operand.axis else axis.extent)
    return regions.region(operand.source.source, starts, extents)


def _renamed(root: Any, var: ir.Var, value: ir.Expr) -> Any:
    return visit.mutate(root, (ir.Var, lambda found, mutator: value if found.same_as(var) else found))


def _all(conditions: list[ir.Expr]) -> ir.Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = tirx.And(result, condition)
    return result
