"""`tile.gemm_scaled`: C += (A · FA) @ (B · FB), where runs of K of a row of A, or a column of B, share a factor.

A factor is a byte, the power of two of `float8_e8m0fnu`, and four in a row are a word. `granularity_a` elements of K
share a factor of A; element k has number `(k_start + k) // granularity_a`. With `by_rows` row r of FA has the words of
row r of A, and so for the columns of B. Else there is one word for each: that of row r at lane r % 32, column r // 32,
and numbers count modulo four. It is an instruction of few targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tile_core.dtypes import DType
from tile_core.errors.ops import GemmDTypeError, GemmShapeError
from tile_core.errors.passes import MissingLoweringError
from tile_core.ir.regions import constant
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile
from tile_core.ops.gemm import GEMM, sizes, transposed
from tile_core.ops.numerics import convert
from tile_core.ops.rules import apart

if TYPE_CHECKING:
    import numpy as np
    from tvm.tirx import stmt as S

LANES, IN_A_WORD = 32, 4
FACTORS = {"a": "fa", "b": "fb"}
"""Operand to its factors."""


def granularity(call: OpCall, side: str) -> int:
    """How many elements of K share a factor of operand `a` or `b`."""
    return int(call.attrs[f"granularity_{side}"])


def is_by_rows(call: OpCall) -> bool:
    """Whether each row of the factors has the words of one row or column."""
    return bool(call.attrs.get("by_rows", 0))


def check(call: OpCall) -> None:
    """As `tile.gemm`, and factors in words that cover every row and column."""
    plain = {name: call.args[name] for name in ("a", "b", "c", "clear_accum")}
    GEMM.check(replace(call, op=GEMM, args=plain))
    m, n, k = sizes(call)
    for side, lines in (("a", m), ("b", n)):
        tile, name = Tile(call.region(FACTORS[side])), f"gemm_scaled: the factors of {side.upper()}"
        apart(call, Tile(call.region("c")), tile)
        if tile.dtype.name != "uint32" or Tile(call.region(side)).dtype.bits > 8:
            raise GemmDTypeError(
                f"{name} are {tile.dtype}, of operands of {Tile(call.region(side)).dtype}",
                remedy="give words of uint32, and operands that are floats of 8 bits",
                span=call.source_span,
            )
        each = granularity(call, side)
        wanted = (lines, 1) if is_by_rows(call) else (LANES, -(-lines // LANES))
        if tile.rank != 2 or any((extent or 0) < least for extent, least in zip(tile.shape, wanted, strict=True)):
            raise GemmShapeError(
                f"{name} have shape {tuple(tile.shape)}, for {lines} lines",
                remedy=f"give a tile of at least {wanted[0]} × {wanted[1]}: words for each line",
                span=call.source_span,
            )
        if is_by_rows(call):
            _check_words(call, name, tile, each, k)
        elif each < 1 or k > IN_A_WORD * each:
            raise GemmShapeError(
                f"{name}: {k} of K with a factor for each {each} are more than the {IN_A_WORD} of a word",
                remedy=f"multiply at most {IN_A_WORD * max(1, each)} of K at once",
                span=call.source_span,
            )


def _check_words(call: OpCall, name: str, tile: Tile, each: int, k: int) -> None:
    """Where it is known where K begins, the words are there."""
    start = constant(call.args["k_start"])
    words = -(-((start or 0) + k) // (each * IN_A_WORD))
    if start is not None and words > (tile.shape[-1] or 0):
        raise GemmShapeError(
            f"{name}: {k} of K from {start} on, a factor for each {each}, take {words} words, not {tile.shape[-1]}",
            remedy="give wider tiles of factors, or begin earlier",
            span=call.source_span,
        )


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """The product of what the codes and their factors stand for, in float64, which holds every factor's product."""
    import numpy as np

    m, n, k = sizes(call)
    numbers = int(operands["k_start"]) + np.arange(k)
    wide = DType("float64")

    def scaled(side: str, lines: int) -> np.ndarray:
        tile = operands[side].reshape(operands[side].shape[-2:])
        by_lines = tile.T if transposed(call, side) == (side == "a") else tile
        line = np.arange(lines)
        factor = numbers // granularity(call, side)
        place = (
            (line[:, None], factor // IN_A_WORD)
            if is_by_rows(call)
            else (line[:, None] % LANES, line[:, None] // LANES)
        )
        at = (factor % IN_A_WORD * 8).astype(np.uint32)
        codes = (operands[FACTORS[side]][place] >> at[None, :] & 255).astype(np.uint8)
        powers = np.ldexp(1.0, codes.astype(np.int32) - 127)
        powers[codes == 255] = np.nan
        return np.asarray(convert(by_lines, Tile(call.region(side)).dtype, wide) * powers)

    product = scaled("a", m) @ scaled("b", n).T
    c = operands["c"].reshape(operands["c"].shape[-2:])
    if not operands["clear_accum"]:
        product = product + convert(c, Tile(call.region("c")).dtype, wide)
    operands["c"][...] = convert(product, wide, Tile(call.region("c")).dtype).reshape(operands["c"].shape)


def _refuse(call: OpCall, _context: LowerContext) -> S.Stmt:
    raise MissingLoweringError(
        "this target has no products with factors of blocks",
        remedy="scale a tile of float32 products after T.gemm",
        span=call.source_span,
    )


GEMM_SCALED = TileOp(
    name="tile.gemm_scaled",
    operands=(
        Operand("a", "r"),
        Operand("b", "r"),
        Operand("c", "rw"),
        Operand("fa", "r"),
        Operand("fb", "r"),
        Operand("clear_accum", "value"),
        Operand("k_start", "value"),
    ),
    check=check,
    reference=reference,
    lower=_refuse,
)
"""A product whose operands have factors."""
