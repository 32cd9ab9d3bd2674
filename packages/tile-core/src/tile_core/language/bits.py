"""Bit operations on integers; on bool, `and`, `or`, `xor` and `not` are logical."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.frontend import arith
from tile_core.frontend.values import Expr
from tile_core.language._scalars import common, require

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "clz",
    "popcount",
    "shift_left",
    "shift_right",
]


def bitwise_and(x: Any, y: Any, span: Any = None) -> Expr:
    """`x & y`: `T.bitwise_and(6, 3) == 2`."""
    return Expr(arith.binary("&", *common(x, y)))


def bitwise_or(x: Any, y: Any, span: Any = None) -> Expr:
    """`x | y`: `T.bitwise_or(6, 3) == 7`."""
    return Expr(arith.binary("|", *common(x, y)))


def bitwise_xor(x: Any, y: Any, span: Any = None) -> Expr:
    """`x ^ y`: `T.bitwise_xor(6, 3) == 5`."""
    return Expr(arith.binary("^", *common(x, y)))


def bitwise_not(x: Any, span: Any = None) -> Expr:
    """~x: `T.bitwise_not(5) == -6`."""
    return Expr(arith.unary("~", common(x)[0]))


def shift_left(x: Any, y: Any, span: Any = None) -> Expr:
    """`x << y`; 0 where y is negative or at least the number of bits. Such a constant is refused.

    `T.shift_left(3, 2) == 12`.
    """
    return Expr(arith.binary("<<", *common(x, y)))


def shift_right(x: Any, y: Any, span: Any = None) -> Expr:
    """`x >> y`: arithmetic on signed integers, logical on unsigned ones. A negative or too large y shifts all out.

    `T.shift_right(-8, 1) == -4`.
    """
    return Expr(arith.binary(">>", *common(x, y)))


def popcount(x: Any) -> Expr:
    """The number of 1 bits of an integer, as its dtype: `T.popcount(T.uint8(255)) == 8`."""
    operand = require("popcount", x, lambda dtype: dtype.is_integer, "an integer")
    dtype = arith.dtype_of(operand)
    return Expr(arith.cast(tirx.popcount(_unsigned(operand, dtype)), dtype))


def clz(x: Any) -> Expr:
    """The number of leading 0 bits of an integer, as int32: the dtype's width for 0. `T.clz(T.int32(1)) == 31`."""
    operand = require("clz", x, lambda dtype: dtype.is_integer, "an integer")
    dtype = arith.dtype_of(operand)
    wide = _unsigned(operand, dtype)
    surplus = arith.dtype_of(wide).bits - dtype.bits
    int32 = DType("int32")
    leading = arith.binary("-", arith.cast(tirx.clz(wide), int32), arith.constant(surplus, int32))
    is_zero = tirx.EQ(operand, arith.constant(0, dtype))
    return Expr(tirx.Select(is_zero, arith.constant(dtype.bits, int32), leading))


def _unsigned(operand: ir.Expr, dtype: DType) -> ir.Expr:
    """The bits of an integer as uint32 or uint64, not sign-extended."""
    same_width = arith.cast(operand, DType(f"uint{dtype.bits}"))
    return arith.cast(same_width, DType("uint64" if dtype.bits == 64 else "uint32"))
