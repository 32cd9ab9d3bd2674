"""Multiply tensors where they are, when a loop copies tiles only to multiply them.

    for k in range(n):                        for k in range(0, n, f):
        copy(A[i, k * 64], A_tile)                gemm(A[i:…, k * 64:…], B[k * 64:…, j:…], C)
        copy(B[k * 64, j], B_tile)
        gemm(A_tile, B_tile, C)

A core has no use for a copy of A, whose elements it broadcasts, and brings B into its own form anyway. Several steps
of the loop become one, which reads and writes C less often.

A region may reach beyond its tensor, or beyond the end of the loop. The multiplication then says that it reads zeros
there (`PADDED`, of A; of B it always does) and how many of its steps along K count (`DEPTH`). All count where either
operand has elements: a zero times infinity is NaN.

The sums are the same numbers in the same order: C is in the dtype of the sums, so that it rounds nothing between steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch, regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant, is_whole
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.copy import pads_with_zeros
from tile_core.ops.gemm import transposed
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import facts_of
from tile_cpu.ops.gemm import in_matrix_tiles
from tile_cpu.ops.prepared import DEPTH, PADDED
from tile_cpu.passes.affine import affine

STEP_BYTES = 64
"""Bytes of A along K that every micro-kernel and matrix tile reads a whole number of times in a step."""

_SUMS = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True)
class StreamOperands:
    """`depth_bytes` is the length of a row of A that one multiplication should have, in bytes.

    `tile_depth_bytes` is that for matrix tiles, which read both operands so fast that two rows of tiles of A have to
    fit into half of the first-level cache.
    """

    depth_bytes: int = 2048
    tile_depth_bytes: int = 512
    name: ClassVar[str] = "stream_operands"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        uses = uses_of(func)
        facts = _launched(func)
        cpu = facts_of(context.capabilities)
        free: set[ir.Var] = set()

        def loop(stmt: S.For, mutator: Any) -> S.Stmt:
            stmt = mutator.default_mutate(stmt)
            match = _match(stmt, uses)
            if match is None:
                return stmt
            free.update(operand.tile for operand in match.operands.values())
            depth = self.tile_depth_bytes if in_matrix_tiles(match.gemm, cpu) else self.depth_bytes
            return _streamed(stmt, match, depth, facts)

        def allocation(stmt: S.AllocBuffer, mutator: Any) -> S.Stmt:
            return visit.sequence([]) if stmt.buffer in free else stmt

        func = visit.mutate(func, (S.For, loop))
        return visit.mutate(func, (S.AllocBuffer, allocation)) if free else func


def _launched(func: tirx.PrimFunc) -> Analyzer:
    """What is known of the block indices."""
    facts = Analyzer()
    for loop in launch.launches(func.body):
        nest = launch.from_stmt(loop)
        for var, extent in zip(nest.grid_vars, nest.grid_extents, strict=True):
            if (constant(extent) or 0) > 0:
                facts.bind(var, ir.Range.from_min_extent(tirx.IntImm(str(var.ty.dtype), 0), extent))
    return facts


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


def uses_of(func: tirx.PrimFunc) -> dict[ir.Var, int]:
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
    if any(var.same_as(loop.loop_var) for var in visit.collect(gemm.region("c"), ir.Var)):
        return None
    operands = {}
    for side in "ab":
        tile = gemm.region(side)
        copy = next((copy for copy in copies if copy.region("dst").source.same_as(tile.source)), None)
        if copy is None or uses[tile.source] != 2 or not (is_whole(tile) and is_whole(copy.region("dst"))):
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
    if not same or src.scope != regions.GLOBAL or src.dtype != dst.dtype or not pads_with_zeros(copy):
        return None
    for at, start in enumerate(src.starts):
        moves = affine(start, loop.loop_var)
        if moves is None or moves.coefficient != (src.shape[axis] if at == axis else 0):
            return None
    return _Operand(dst.buffer, src.region, axis)


def _streamed(loop: S.For, match: _Match, depth_bytes: int, facts: Analyzer) -> S.Stmt:
    a = Tile(match.operands["a"].source)
    step = a.shape[match.operands["a"].axis]
    assert step is not None
    step_bytes = step * max(1, a.dtype.bits // 8)
    factor = max(1, depth_bytes // step_bytes)
    steps = constant(loop.extent)
    if steps is not None:
        factor = _divisor(steps, factor)
    whole = steps is not None and steps % factor == 0
    if not whole and step_bytes % STEP_BYTES:
        factor, whole = 1, True
    dtype = str(loop.loop_var.ty.dtype)
    block = tirx.Var(f"{loop.loop_var.name}_block", dtype)
    size = tirx.IntImm(dtype, factor)
    first = block * size
    blocks = tirx.floordiv(loop.extent + (factor - 1), size)
    wide = {side: _widened(operand, loop.loop_var, first, factor) for side, operand in match.operands.items()}
    facts.bind(block, ir.Range.from_min_extent(tirx.IntImm(dtype, 0), blocks))
    attrs: dict[str, Any] = {}
    if not (whole and _is_inside(wide["a"], facts)):
        left = (loop.extent - first) * step
        rest = tirx.max(*(_rest(wide[side], match.operands[side].axis) for side in "ab"))
        most = tirx.min(left, tirx.IntImm(dtype, factor * step))
        attrs = {PADDED: 1, DEPTH: tirx.max(tirx.min(most, rest), tirx.IntImm(dtype, 1))}
    gemm = replace(match.gemm, args={**match.gemm.args, **wide}, attrs={**match.gemm.attrs, **attrs})
    return rebuild.loop(loop, loop_var=block, extent=blocks, step=None, body=gemm.to_stmt())


def _divisor(steps: int, most: int) -> int:
    """The largest number up to `most` that divides `steps`, if it is not much smaller; else `most`."""
    best = next((size for size in range(min(most, max(steps, 1)), 0, -1) if steps % size == 0), 1)
    return best if 2 * best > min(most, steps) else min(most, max(steps, 1))


def _is_inside(region: ir.TensorRegion, facts: Analyzer) -> bool:
    """Whether the region provably lies within its tensor."""
    return all(
        facts.can_prove(axis.min >= 0) and facts.can_prove(axis.min + axis.extent <= size)
        for axis, size in zip(region.region, region.source.shape, strict=True)
    )


def _rest(region: ir.TensorRegion, axis: int) -> ir.Expr:
    """How many elements the tensor has along `axis` from the region's first on."""
    return region.source.shape[axis] - region.region[axis].min


def _widened(operand: _Operand, loop_var: ir.Var, first: ir.Expr, factor: int) -> ir.TensorRegion:
    """The region of `factor` iterations from iteration `first` on."""
    starts, extents = [], []
    for at, axis in enumerate(operand.source.region):
        starts.append(_renamed(axis.min, loop_var, first))
        extents.append(axis.extent * factor if at == operand.axis else axis.extent)
    return regions.region(operand.source.source, starts, extents)


def _renamed(root: Any, var: ir.Var, value: ir.Expr) -> Any:
    return visit.mutate(root, (ir.Var, lambda found, mutator: value if found.same_as(var) else found))
