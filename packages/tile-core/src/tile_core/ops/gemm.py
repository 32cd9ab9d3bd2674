"""`tile.gemm`: C += A @ B on tiles (C = A @ B with `clear_accum`).

Accumulation is explicit: float operands of at most 32 bits accumulate in float32 (float64 if an operand or C is
float64), integers in C's dtype, which must have at least 32 bits; the sum is converted to C's dtype once per call.
Terms are added in ascending k by the portable lowering; a backend may add them in another order.

Attributes: `transpose_a`, `transpose_b`, `policy` (0 square, 1 full row, 2 full column: how warps split the tile
where there are warps). `clear_accum` is a bool-valued operand, a constant or a device expression.

`packed_a` and `packed_b`, which `passes/pack_narrow.py` sets, name the dtype of an operand of four bits that has become
the bytes of its tile: each row is along K, two elements to a byte. `codes_a` and `codes_b` name that of an operand of
floats of six or four bits that is a tile of their codes, and `units_a` and `units_b` say that it is in units
(`passes/coded_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.ops import GemmDTypeError, GemmShapeError, GemmSymbolicError
from tile_core.ir import codes, nibbles, regions
from tile_core.ir.regions import constant
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import (
    Cell,
    Tile,
    cast,
    dtype_of,
    int32,
    number,
    parallel,
    serial,
    shape_text,
    widened,
)
from tile_core.ops.numerics import convert
from tile_core.ops.rules import apart, inside

if TYPE_CHECKING:
    import numpy as np

_SIDES = ("a", "b", "c")
_STEPS, _STEP_BYTES = 8, 16
"""How many steps of K are unrolled at most, and how many bytes of a row of A they read."""


def packed(call: OpCall, side: str) -> DType | None:
    """The dtype of four bits that the bytes of operand `a` or `b` hold two of; `None` for a tile of its own dtype."""
    name = call.attrs.get(f"packed_{side}")
    return None if name is None else as_dtype(str(name))


def coded(call: OpCall, side: str) -> DType | None:
    """The dtype whose codes the bytes of operand `a` or `b` are; `None` for a tile of its own dtype."""
    name = call.attrs.get(f"codes_{side}")
    return None if name is None else as_dtype(str(name))


def in_units(call: OpCall, side: str) -> bool:
    """Whether the codes of operand `a` or `b` are packed in units."""
    return bool(call.attrs.get(f"units_{side}", 0))


def transposed(call: OpCall, side: str) -> bool:
    """Whether operand `a` or `b` is stored transposed."""
    return bool(call.attrs.get(f"transpose_{side}", 0))


def sizes(call: OpCall) -> tuple[int, int, int]:
    """M, N and K of a checked call."""
    a, c = Tile(call.region("a")).shape[-2:], Tile(call.region("c")).shape[-2:]
    (m, n), k = c, a[0] if transposed(call, "a") else a[1]
    assert m is not None and n is not None and k is not None
    return m, n, k if packed(call, "a") is None else 2 * k


def check(call: OpCall) -> None:
    """Rank, shape and dtype rules of the module's docstring."""
    tiles = {side: Tile(call.region(side)) for side in _SIDES}
    for side, tile in tiles.items():
        _check_matrix(call, side.upper(), tile)
    _check_sizes(call, tiles)
    _check_dtypes(call, tiles)
    apart(call, tiles["c"], tiles["a"], tiles["b"])
    inside(call, *tiles.values())


def _check_matrix(call: OpCall, side: str, tile: Tile) -> None:
    if tile.rank < 2 or any(extent != 1 for extent in tile.shape[:-2]):
        raise GemmShapeError(
            f"gemm: {side} = {tile} has shape {shape_text(tile.extents)}; it must be a matrix, with leading axes of 1",
            remedy="pass a 2-D buffer or slice the leading axes",
            span=call.source_span,
        )
    for axis in (-2, -1):
        if tile.shape[axis] is None:
            raise GemmSymbolicError(
                f"gemm: axis {tile.rank + axis} of {side} = {tile} is {tile.extents[axis]}, which is not a constant",
                remedy="use a constant tile size; copies pad what lies beyond the tensor with zeros",
                span=call.source_span,
            )


def _check_sizes(call: OpCall, tiles: Mapping[str, Tile]) -> None:
    (am, ak), (bk, bn), (cm, cn) = (tuple(tiles[side].shape[-2:]) for side in _SIDES)
    if transposed(call, "a"):
        am, ak = ak, am
    if transposed(call, "b"):
        bk, bn = bn, bk
    for name, left, right, sides in (("K", ak, bk, "ab"), ("M", am, cm, "ac"), ("N", bn, cn, "bc")):
        if left != right:
            first, second = (tiles[side] for side in sides)
            raise GemmShapeError(
                f"gemm: {name} is {left} in {sides[0].upper()} = {first} but {right} in {sides[1].upper()} = {second} "
                f"(transpose_A={transposed(call, 'a')}, transpose_B={transposed(call, 'b')})",
                remedy="check the tile shapes and the transpose flags",
                span=call.source_span,
            )


def _check_dtypes(call: OpCall, tiles: Mapping[str, Tile]) -> None:
    a, b, c = (tiles[side].dtype for side in _SIDES)
    floats = all(dtype.is_float and dtype.bits <= 8 for dtype in (a, b))
    nibbles_of_both_signs = all(dtype.is_integer and dtype.bits == nibbles.BITS for dtype in (a, b))
    if a != b and not floats and not nibbles_of_both_signs:
        raise GemmDTypeError(
            f"gemm: A = {tiles['a'].name} is {a} but B = {tiles['b'].name} is {b}",
            remedy="convert one of them with a copy into a tile of the other's dtype",
            span=call.source_span,
        )
    if a.is_bool:
        raise GemmDTypeError(
            f"gemm: A = {tiles['a'].name} is {a}, and only numbers are multiplied",
            remedy="copy the operands into tiles of int8",
            span=call.source_span,
        )
    if a.is_float != c.is_float or (c.is_integer and c.bits < 32) or c.is_bool:
        wanted = "a float accumulator" if a.is_float else "an integer accumulator of at least 32 bits"
        raise GemmDTypeError(
            f"gemm: C = {tiles['c'].name} is {c}, but operands of {a} need {wanted}",
            remedy="allocate C as float32 for float operands, int32 for integer operands",
            span=call.source_span,
        )


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """`c += op(a) @ op(b)` in the accumulation dtype."""
    dtypes = {side: Tile(call.region(side)).dtype for side in _SIDES}
    dtype = widened(*dtypes.values())
    wide = {side: convert(operands[side], dtypes[side], dtype).reshape(operands[side].shape[-2:]) for side in _SIDES}
    left, right = (wide[side].T if transposed(call, side) else wide[side] for side in "ab")
    product = left @ right
    if not operands["clear_accum"]:
        product = product + wide["c"]
    operands["c"][...] = convert(product, dtype, dtypes["c"]).reshape(operands["c"].shape)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """One accumulator an element of C: `PARALLEL` over M and N, serial over K."""
    a, b, c = (Tile(call.region(side)) for side in _SIDES)
    dtype = widened(a.dtype, b.dtype, c.dtype)
    m, n, k = (int32(size) for size in sizes(call))

    def element(index: list[ir.Expr]) -> S.Stmt:
        row, column = index
        total = Cell.new("acc", dtype)

        def step(at: ir.Expr) -> S.Stmt:
            left = cast(a.load(_placed(call, "a", a, row, at)), dtype)
            right = cast(b.load(_placed(call, "b", b, at, column)), dtype)
            return total.set(tirx.Add(total.get(), tirx.Mul(left, right)), call.span)

        place = _matrix(c, row, column)
        return sequence(
            [
                total.declare(call.span),
                total.set(_initial(call, cast(c.load(place), dtype)), call.span),
                serial(k, step, span=call.span),
                c.store(total.get(), place, call.span),
            ],
            call.span,
        )

    return parallel([m, n], element, call.span)


def lower_for_threads(call: OpCall, _context: LowerContext) -> S.Stmt:
    """K outermost: every step adds a column of A times a row of B to all of C, which the threads hold in registers.

    A thread has a piece of C with several rows and columns, so each element of A and B that it reads serves several
    sums; a few steps at a time are unrolled, so that reads along K are vectors too. C is accumulated in place where it
    is a whole fragment of the accumulation dtype.
    """
    a, b, c = (Tile(call.region(side)) for side in _SIDES)
    dtype = widened(coded(call, "a") or a.dtype, coded(call, "b") or b.dtype, c.dtype)
    m, n, k = sizes(call)
    in_place = c.dtype is dtype and regions.scope(c.buffer) == regions.FRAGMENT and regions.is_whole(call.region("c"))
    sums = c.buffer if in_place else tirx.decl_buffer((m, n), dtype.tvm, "sums", scope=regions.FRAGMENT)

    def at(index: list[ir.Expr]) -> list[ir.Expr]:
        return _matrix(c, *index) if in_place else index

    def over_c(body: Callable[[list[ir.Expr]], S.Stmt], **marks: int) -> S.Stmt:
        return parallel([int32(m), int32(n)], body, call.span, {f"tile.{mark}": value for mark, value in marks.items()})

    def start(index: list[ir.Expr]) -> S.Stmt:
        old = c.load(_matrix(c, *index))
        return S.BufferStore(sums, _initial(call, cast(old, dtype)), at(index), call.span)

    def step(first: ir.Expr, count: int) -> S.Stmt:
        k = tirx.Var("k", "int32")

        def add(index: list[ir.Expr]) -> S.Stmt:
            row, column = index
            left = cast(_element(call, "a", a, row, first + k), dtype)
            right = cast(_element(call, "b", b, first + k, column), dtype)
            total = tirx.Add(tirx.BufferLoad(sums, at(index)), tirx.Mul(left, right))
            store = S.BufferStore(sums, total, at(index), call.span)
            return S.For(k, int32(0), int32(count), S.ForKind.UNROLLED, store, span=call.span)

        return over_c(add, product=1)

    def finish(index: list[ir.Expr]) -> S.Stmt:
        return c.store(tirx.BufferLoad(sums, index), _matrix(c, *index), call.span)

    stmts: list[S.Stmt] = [] if in_place else [S.AllocBuffer(sums, span=call.span)]
    if not in_place or constant(call.args["clear_accum"]) != 0:
        stmts.append(over_c(start))
    stmts += _steps(k, max(1, _STEP_BYTES // max(1, a.dtype.bits // 8)), step, call.span)
    if not in_place:
        stmts.append(over_c(finish))
    return sequence(stmts, call.span)


def _steps(count: int, together: int, step: Callable[[ir.Expr, int], S.Stmt], span: ir.Span | None) -> list[S.Stmt]:
    """`step(first, several)` for 0 to `count - 1`, `together` positions at a time, then the rest."""
    together = min(together, _STEPS, max(count, 1))
    groups, rest = divmod(count, together)
    found: list[S.Stmt] = []
    if groups == 1:
        found.append(step(int32(0), together))
    elif groups:
        found.append(serial(int32(groups), lambda group: step(group * together, together), "k_group", span))
    if rest:
        found.append(step(int32(groups * together), rest))
    return found


def _element(call: OpCall, side: str, tile: Tile, row: ir.Expr, column: ir.Expr) -> ir.Expr:
    """An element of an operand, which may be half of a byte."""
    place, narrow, code = _placed(call, side, tile, row, column), packed(call, side), coded(call, side)
    if code is not None:
        *leading, last = place
        found = tile.load(place)
        if in_units(call, side):
            found = codes.unit_element(lambda at: tile.load([*leading, at]), last, code.bits)
        return codes.CODES[code].decode(found)
    if narrow is None:
        return tile.load(place)
    return nibbles.nibble(tile.load(nibbles.byte_place(place)), place[-1], is_signed=narrow.is_int)


def _placed(call: OpCall, side: str, tile: Tile, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
    """Where the element of an operand lies, which may be stored transposed."""
    return _matrix(tile, column, row) if transposed(call, side) else _matrix(tile, row, column)


def _initial(call: OpCall, old: ir.Expr) -> ir.Expr:
    clear = call.args["clear_accum"]
    fixed = constant(clear)
    if fixed is not None:
        return number(0, dtype_of(old)) if fixed else old
    return tirx.if_then_else(clear, number(0, dtype_of(old)), old)


def _matrix(tile: Tile, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
    return [int32(0)] * (tile.rank - 2) + [row, column]


GEMM = TileOp(
    name="tile.gemm",
    operands=(Operand("a", "r"), Operand("b", "r"), Operand("c", "rw"), Operand("clear_accum", "value")),
    check=check,
    reference=reference,
    lower=lower,
)
