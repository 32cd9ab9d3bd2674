"""Operands of four and six bits that a product takes as tiles of a wider dtype, which the block fills first.

Such a tile lies along K. Where both operands are integers and one of them comes from whole bytes, its values are in
another order along K, the same in both, so that sums stay what they are: of each run of values the even ones, then the
odd ones. So a run is the low halves of neighbouring bytes and then their high halves, which targets make a word at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.ir import nibbles, regions, visit
from tile_core.ops.base import OpCall
from tile_core.ops.build import Tile, cast, parallel
from tile_core.ops.gemm import transposed

STAGED = "staged_{}"
"""Attribute of a `tile.gemm` whose operand `a` or `b` is such a tile: filled before each product, read by it alone."""
RUNS = (32, 16)
"""Values along K that are reordered together, the first that divides K."""


def product_dtype(a: DType, b: DType) -> DType:
    """What narrow operands are multiplied as: a dtype that holds all of their values, and that products take.

    >>> product_dtype(DType("int4"), DType("uint4")), product_dtype(DType("float4_e2m1fn"), DType("float6_e2m3fn"))
    (DType('int8'), DType('float16'))
    """
    if a.is_integer:
        return DType("uint8" if a is b and a.is_unsigned else "int8")
    return DType("float8_e4m3fn" if any(dtype.bits == 8 for dtype in (a, b)) else "float16")


def is_turned(call: OpCall, side: str) -> bool:
    """Whether an operand is stored with K as its first axis."""
    return transposed(call, side) == (side == "a")


def run_of(call: OpCall, in_bytes: Mapping[str, bool]) -> int:
    """Values of a run of K that both operands of a product have in the module's order; 1 for K as it is.

    `in_bytes`: whether an operand lies along K in whole bytes.
    """
    dtypes = [DType(str(call.region(side).source.dtype)) for side in "ab"]
    if not any(in_bytes.values()) or any(dtype.is_float or dtype.bits != nibbles.BITS for dtype in dtypes):
        return 1
    depth = regions.constant(call.region("b").region[-2 if is_turned(call, "b") else -1].extent) or 1
    return next((run for run in RUNS if depth % run == 0), 1)


def along_k(call: OpCall, side: str, dtype: DType, run: int = 1) -> tuple[ir.Var, S.Stmt]:
    """A shared tile for an operand of a product, whose last axis is K, and the loops that fill it."""
    src, turned = Tile(call.region(side)), is_turned(call, side)
    tile = _tile(src.name, list(reversed(src.extents[-2:]) if turned else src.extents[-2:]), dtype)
    outer = [tirx.IntImm("int32", 0)] * (src.rank - 2)

    def element(index: list[ir.Expr]) -> S.Stmt:
        row, column = index[::-1] if turned else index
        place = [row, _reordered(column, run)]
        return Tile(regions.whole(tile)).store(cast(src.load([*outer, *index]), dtype), place, call.span)

    return tile, parallel(src.extents[-2:], element, call.span)


def halves(
    call: OpCall, side: str, dtype: DType, run: int, load: Callable[[ir.Expr, ir.Expr], ir.Expr]
) -> tuple[ir.Var, S.Stmt]:
    """The same from the bytes `load(row, column)` of integers of four bits that lie along K."""
    src = Tile(call.region(side))
    rows, depth = src.extents[-2:]
    tile, each = _tile(src.name, [rows, depth], dtype), run // 2
    is_signed = src.dtype.is_int
    runs = tirx.IntImm("int32", (regions.constant(depth) or 0) // run)

    def fill(index: list[ir.Expr]) -> S.Stmt:
        row, number, at = index
        byte = load(row, number * each + at)
        stores: list[S.Stmt] = []
        for half in range(2):
            value = cast(nibbles.nibble(byte, tirx.IntImm("int32", half), is_signed=is_signed), dtype)
            stores.append(S.BufferStore(tile, value, [row, number * run + (half * each) + at], call.span))
        return visit.sequence(stores, call.span)

    return tile, parallel([rows, runs, tirx.IntImm("int32", each)], fill, call.span)


def _tile(name: str, extents: Sequence[ir.Expr], dtype: DType) -> ir.Var:
    return tirx.decl_buffer(extents, dtype.tvm, f"{name}_{dtype}", scope=regions.SHARED[0], data_alignment=dtype.bytes)


def _reordered(column: ir.Expr, run: int) -> ir.Expr:
    if run == 1:
        return column
    whole, two = (E.IntImm(column.ty, number) for number in (run, 2))
    within = tirx.floormod(column, whole)
    return column - within + tirx.floormod(within, two) * (run // 2) + tirx.floordiv(within, two)
