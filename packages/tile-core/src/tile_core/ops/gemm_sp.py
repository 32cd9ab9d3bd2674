"""`tile.gemm_sp`: C += A @ B with an A of which two elements in four are stored (2:4 sparsity).

Each row of A holds the elements of chunks of four, two a chunk, one after another. E says where in its chunk each of
them belongs: four bits a chunk, the first element's place in the lower two, which is less than the second's. Chunks
follow each other from the low bits of E's integers on. Accumulation and attributes are those of `tile.gemm`;
`transpose_e`: E is stored by columns. What is not an integer of 8 bits or more has no E.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import GemmDTypeError, GemmShapeError, GemmSymbolicError
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Cell, Tile, cast, dtype_of, int32, number, parallel, serial, shape_text, widened
from tile_core.ops.gemm import transposed
from tile_core.ops.numerics import convert
from tile_core.ops.rules import apart, inside

if TYPE_CHECKING:
    import numpy as np

CHUNK, HELD, BITS = 4, 2, 4
"""Elements of a chunk, those that are stored, and bits of E for it."""
_SIDES = ("a", "e", "b", "c")


def chunks_of(call: OpCall) -> int:
    """Chunks that an element of E speaks of."""
    return int(Tile(call.region("e")).dtype.bits) // BITS


def check(call: OpCall) -> None:
    """Rank, shape and dtype rules of the module's docstring."""
    tiles = {side: Tile(call.region(side)) for side in _SIDES}
    for side, tile in tiles.items():
        if tile.rank < 2 or any(extent != 1 for extent in tile.shape[:-2]):
            raise GemmShapeError(
                f"gemm_sp: {side.upper()} = {tile} has shape {shape_text(tile.extents)}; it must be a matrix",
                remedy="pass a 2-D buffer or slice the leading axes",
                span=call.source_span,
            )
        if None in tile.shape[-2:]:
            raise GemmSymbolicError(
                f"gemm_sp: {side.upper()} = {tile} has extents that are not constants",
                remedy="use constant tile sizes; copies pad what lies beyond the tensor with zeros",
                span=call.source_span,
            )
    _check_dtypes(call, tiles)
    _check_sizes(call, tiles)
    apart(call, tiles["c"], tiles["a"], tiles["e"], tiles["b"])
    inside(call, *tiles.values())


def _check_dtypes(call: OpCall, tiles: Mapping[str, Tile]) -> None:
    a, e, b, c = (tiles[side].dtype for side in _SIDES)
    narrow = all(dtype.is_float and dtype.bits == 8 for dtype in (a, b))
    if (a != b and not narrow) or a.bits not in (8, 16) or a.is_bool or a.is_float != c.is_float:
        raise GemmDTypeError(
            f"gemm_sp: there is no product of {a} and {b} into {c}",
            remedy="use operands of one dtype of 8 or 16 bits, and a float C for floats, int32 for integers",
            span=call.source_span,
        )
    if not e.is_integer or e.is_bool or e.bits not in (8, 16, 32):
        raise GemmDTypeError(
            f"gemm_sp: the places E = {tiles['e'].name} are {e}",
            remedy="use uint8, uint16, or an integer of 32 bits",
            span=call.source_span,
        )


def _check_sizes(call: OpCall, tiles: Mapping[str, Tile]) -> None:
    (am, ak), (em, ek), (bk, bn), (cm, cn) = (_shape(tiles[side], call, side) for side in _SIDES)
    chunks = ek * chunks_of(call)
    if (am, em, bn) != (cm, cm, cn) or bk != HELD * ak or bk != CHUNK * chunks:
        raise GemmShapeError(
            f"gemm_sp: A is {am} × {ak}, E names {chunks} chunks of {em} rows, B is {bk} × {bn} and C {cm} × {cn}",
            remedy=f"A has K / 2 columns, E {BITS} bits for {CHUNK} of K: here {bk // 2}, and {bk // CHUNK} chunks",
            span=call.source_span,
        )


def _shape(tile: Tile, call: OpCall, side: str) -> tuple[int, int]:
    rows, columns = (int(extent or 0) for extent in tile.shape[-2:])
    return (columns, rows) if transposed(call, side) else (rows, columns)


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """`c += op(a) @ op(b)` with `a` written out."""
    import numpy as np

    tiles = {side: Tile(call.region(side)) for side in _SIDES}
    dtype = widened(tiles["a"].dtype, tiles["b"].dtype, tiles["c"].dtype)
    matrices: dict[str, np.ndarray] = {side: operands[side].reshape(operands[side].shape[-2:]) for side in _SIDES}
    stored = {side: matrices[side].T if transposed(call, side) else matrices[side] for side in _SIDES}
    held, places, right = stored["a"], stored["e"], stored["b"]
    wide = convert(held, tiles["a"].dtype, dtype)
    rows = len(held)
    chunks = held.size // max(1, HELD * rows)
    chunk, per = np.arange(chunks), chunks_of(call)
    words = places.astype(np.int64)[:, chunk // per] >> chunk % per * BITS
    kept = wide.reshape(rows, chunks, HELD)
    left = np.zeros((rows, chunks, CHUNK), wide.dtype)
    for at in range(HELD):
        place = (words >> 2 * at & 3).reshape(rows, chunks, 1)
        np.put_along_axis(left, place, kept[:, :, at : at + 1], 2)
    product = left.reshape(rows, -1) @ convert(right, tiles["b"].dtype, dtype)
    if not operands["clear_accum"]:
        product = product + convert(matrices["c"], tiles["c"].dtype, dtype)
    operands["c"][...] = convert(product, dtype, tiles["c"].dtype).reshape(operands["c"].shape)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """One accumulator an element of C: `PARALLEL` over M and N, serial over the chunks."""
    a, e, b, c = (Tile(call.region(side)) for side in _SIDES)
    dtype = widened(a.dtype, b.dtype, c.dtype)
    (m, n), per = c.shape[-2:], chunks_of(call)
    chunks = _shape(b, call, "b")[0] // CHUNK

    def element(index: list[ir.Expr]) -> S.Stmt:
        row, column = index
        total, bits = Cell.new("acc", dtype), tirx.Var("bits", "int32")

        def step(at: ir.Expr) -> S.Stmt:
            word = e.load(_placed(call, "e", e, row, tirx.floordiv(at, int32(per))))
            shifted = tirx.shift_right(word.astype("int32"), tirx.floormod(at, int32(per)) * BITS)
            stmts: list[S.Stmt] = [S.Bind(bits, tirx.bitwise_and(shifted, int32(15)))]
            for which in range(HELD):
                place = tirx.bitwise_and(tirx.shift_right(bits, int32(2 * which)), int32(3))
                left = cast(a.load(_placed(call, "a", a, row, at * HELD + which)), dtype)
                right = cast(b.load(_placed(call, "b", b, at * CHUNK + place, column)), dtype)
                stmts.append(total.set(tirx.Add(total.get(), tirx.Mul(left, right)), call.span))
            return sequence(stmts, call.span)

        place = [int32(0)] * (c.rank - 2) + [row, column]
        return sequence(
            [
                total.declare(call.span),
                total.set(_initial(call, cast(c.load(place), dtype)), call.span),
                serial(int32(chunks), step, span=call.span),
                c.store(total.get(), place, call.span),
            ],
            call.span,
        )

    assert m is not None and n is not None
    return parallel([int32(m), int32(n)], element, call.span)


def _placed(call: OpCall, side: str, tile: Tile, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
    return [int32(0)] * (tile.rank - 2) + ([column, row] if transposed(call, side) else [row, column])


def _initial(call: OpCall, old: ir.Expr) -> ir.Expr:
    zero = number(0, dtype_of(old))
    return tirx.if_then_else(call.args["clear_accum"], zero, old)


GEMM_SP = TileOp(
    name="tile.gemm_sp",
    operands=(
        Operand("a", "r"),
        Operand("e", "r"),
        Operand("b", "r"),
        Operand("c", "rw"),
        Operand("clear_accum", "value"),
    ),
    check=check,
    reference=reference,
    lower=lower,
)
