"""Floats of six and four bits as their codes: to and from float32, in expressions, and where packed ones lie.

Instructions take such floats in units: sixteen codes in sixteen bytes, packed from the first bit on, so that the last
four (six bits) or eight (four bits) bytes hold nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType

WIDE = "float32"
"""The dtype of arithmetic on floats that are carried as their bits."""
SIX = 6
"""Bits of a code that has a byte for itself."""
UNIT = 16
"""Codes, and bytes, of a unit."""
BYTE = 8


@dataclass(frozen=True)
class Code:
    """A float as its bits: to float32, and from there with one rounding."""

    decode: Callable[[ir.Expr], ir.Expr]
    encode: Callable[[ir.Expr], ir.Expr]


_MINUS_INFINITY = 0xFF800000
"""Bits of a float32; what is above is a NaN with a sign."""


def _word(number: int) -> ir.Expr:
    return tirx.IntImm("uint32", number)


def _sign(bits: ir.Expr) -> ir.Expr:
    """1 for a negative float32. Formats without NaN have its largest value for it, whatever its sign."""
    return E.Select(E.LE(bits, _word(_MINUS_INFINITY)), E.RShift(bits, _word(31)), _word(0))


_E2M1_UP, _E2M1_REST = (0.25, 1.25, 2.5, 5.0), (0.75, 1.75, 3.5)
"""Where the next code begins: above the first, at or above the second, since halves go to even codes."""


def _decode_e2m1(code: ir.Expr) -> ir.Expr:
    """Exponent and mantissa begin at bit 22 of a float32, whose bias is 126 more; 0 and 0.5 have no leading one."""
    bits = tirx.Var("code", "uint32")

    size = E.BitwiseAnd(bits, _word(7))
    normal = E.Add(E.LShift(size, _word(22)), _word(126 << 23))
    small = E.Select(E.EQ(size, _word(1)), _word(126 << 23), _word(0))
    sign = E.LShift(E.BitwiseAnd(bits, _word(8)), _word(28))
    whole = E.BitwiseOr(E.Select(E.GE(size, _word(2)), normal, small), sign)
    return E.Let(bits, E.Cast("uint32", code), tirx.reinterpret(WIDE, whole))


def _encode_e2m1(value: ir.Expr) -> ir.Expr:
    """The code counts the bounds that the magnitude has passed; NaN passes all of them, and is the largest value."""
    number, bits = tirx.Var("value", WIDE), tirx.Var("bits", "uint32")
    size = tirx.reinterpret(WIDE, E.BitwiseAnd(bits, _word(0x7FFFFFFF)))
    zero, one = (tirx.IntImm("uint8", count) for count in (0, 1))
    passed = [E.Select(E.LE(size, tirx.FloatImm(WIDE, bound)), zero, one) for bound in _E2M1_UP]
    passed += [E.Select(E.LT(size, tirx.FloatImm(WIDE, bound)), zero, one) for bound in _E2M1_REST]
    code: ir.Expr = E.Cast("uint8", E.LShift(_sign(bits), _word(3)))
    for step in passed:
        code = E.Add(code, step)
    return E.Let(number, value, E.Let(bits, tirx.reinterpret("uint32", number), code))


def _six_bits(exponent: int, mantissa: int) -> Code:
    """A float of a sign, `exponent` and `mantissa` bits, of which every code is a number: its code from and to float32.

    Rounding adds to the bits of a normal number what lets halves go to even, and to a smaller one a number so large
    that the rest of its bits count in units of the smallest. NaN is the largest of all codes, and becomes the last one.
    """
    bias, dropped, largest = (1 << exponent - 1) - 1, 23 - mantissa, (1 << exponent + mantissa) - 1
    smallest, rounder = 2.0 ** (1 - bias - mantissa), 1 << 23

    def decode(code: ir.Expr) -> ir.Expr:
        bits = tirx.Var("code", "uint32")
        size = E.BitwiseAnd(bits, _word(largest))
        normal = E.Add(E.LShift(size, _word(dropped)), _word(127 - bias << 23))
        small = tirx.reinterpret("uint32", E.Mul(E.Cast(WIDE, size), tirx.FloatImm(WIDE, smallest)))
        sign = E.LShift(E.BitwiseAnd(bits, _word(largest + 1)), _word(31 - exponent - mantissa))
        whole = E.BitwiseOr(E.Select(E.GE(size, _word(1 << mantissa)), normal, small), sign)
        return E.Let(bits, E.Cast("uint32", code), tirx.reinterpret(WIDE, whole))

    def encode(value: ir.Expr) -> ir.Expr:
        bits, size = tirx.Var("bits", "uint32"), tirx.Var("size", "uint32")
        even = E.BitwiseAnd(E.RShift(size, _word(dropped)), _word(1))
        rounded = E.Add(size, E.Add(even, _word((1 << dropped - 1) - 1)))
        normal = E.Sub(E.RShift(rounded, _word(dropped)), _word(127 - bias << mantissa))
        units = E.Mul(tirx.reinterpret(WIDE, size), tirx.FloatImm(WIDE, 1 / smallest))
        moved = tirx.reinterpret("uint32", E.Add(units, tirx.FloatImm(WIDE, float(rounder))))
        small = E.BitwiseAnd(moved, _word(rounder - 1))
        code = E.Min(E.Select(E.LT(size, _word(128 - bias << 23)), small, normal), _word(largest))
        sign = E.LShift(_sign(bits), _word(exponent + mantissa))
        whole = E.Let(size, E.BitwiseAnd(bits, _word(0x7FFFFFFF)), E.BitwiseOr(code, sign))
        return E.Cast("uint8", E.Let(bits, tirx.reinterpret("uint32", value), whole))

    return Code(decode, encode)


CODES: Mapping[DType, Code] = {
    DType("float4_e2m1fn"): Code(_decode_e2m1, _encode_e2m1),
    DType("float6_e2m3fn"): _six_bits(2, 3),
    DType("float6_e3m2fn"): _six_bits(3, 2),
}
"""Each such type's."""


def unit_element(load: Callable[[ir.Expr], ir.Expr], at: ir.Expr, bits: int) -> ir.Expr:
    """The code of element `at` of a row of units, as uint8, from its bytes `load(index)`.

    It is in the byte that its first bit is in and that of its last: no other is read.
    """
    unit = tirx.floordiv(at, tirx.IntImm("int32", UNIT)) * UNIT
    bit = tirx.floormod(at, tirx.IntImm("int32", UNIT)) * bits
    ends = (bit, bit + (bits - 1))
    low, high = (E.Cast("uint32", load(unit + tirx.floordiv(end, tirx.IntImm("int32", BYTE)))) for end in ends)
    word = E.BitwiseOr(low, E.LShift(high, tirx.IntImm("uint32", BYTE)))
    shift = E.Cast("uint32", tirx.floormod(bit, tirx.IntImm("int32", BYTE)))
    return E.Cast("uint8", E.BitwiseAnd(E.RShift(word, shift), tirx.IntImm("uint32", (1 << bits) - 1)))
