"""Exact literals.

A float is printed in the fewest decimal digits from which a correctly rounding compiler gets the same bits back, and an
integer so that its literal has its type: `-2147483648` is not an `int` in C.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

from tile_core.printer.precedence import Code, Precedence


def _packed(code: str) -> Callable[[float], float]:
    def rounded(value: float) -> float:
        try:
            (result,) = struct.unpack(code, struct.pack(code, value))
        except OverflowError:
            return math.copysign(math.inf, value)
        return float(result)

    return rounded


def _to_bfloat16(value: float) -> float:
    """Round to nearest even from float64 in one step: rounding through float32 would round twice."""
    if not math.isfinite(value) or value == 0.0:
        return value
    exponent = max(math.frexp(value)[1] - 1, -126)
    unit = math.ldexp(1.0, exponent - 7)
    result = math.copysign(round(Fraction(value) / Fraction(unit)) * unit, value)
    return result if abs(result) < 2.0**128 else math.copysign(math.inf, value)


ROUND: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"float64": float, "float32": _packed("<f"), "float16": _packed("<e"), "bfloat16": _to_bfloat16}
)
"""Rounds a Python float to a dtype."""


def shortest(value: float, dtype: str) -> str:
    """The shortest decimal text of a finite `value` of `dtype` (`float32` or `float64`), with a point or an exponent.

    >>> shortest(0.1, "float64"), shortest(ROUND["float32"](0.1), "float32"), shortest(-0.0, "float32")
    ('0.1', '0.1', '-0.0')
    """
    text = repr(value) if dtype == "float64" else _shortest_float32(value)
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _shortest_float32(value: float) -> str:
    if value == 0.0:
        return repr(value)
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        if _is_nearest(Fraction(text), value):
            return text
    return f"{value:.9g}"


def _is_nearest(decimal: Fraction, value: float) -> bool:
    """Whether `value` is the float32 closest to `decimal`, strictly: a tie would depend on the compiler."""
    (bits,) = struct.unpack("<I", struct.pack("<f", abs(value)))
    if bits >= 0x7F7FFFFF:
        return decimal == Fraction(value)
    below, above = (struct.unpack("<f", struct.pack("<I", max(0, bits + step)))[0] for step in (-1, 1))
    size, target = abs(decimal), Fraction(abs(value))
    return (Fraction(below) + target) / 2 < size < (target + Fraction(above)) / 2


def integer(value: int, suffix: str, bits: int, *, signed: bool) -> Code:
    """An integer literal with the suffix of its type.

    >>> integer(-(2**31), "", 32, signed=True).text, integer(7, "ull", 64, signed=False).text
    ('(-2147483647 - 1)', '7ull')
    """
    if signed and bits >= 32 and value == -(1 << (bits - 1)):
        return Code(f"(-{-(value + 1)}{suffix} - 1{suffix})")
    return Code(f"{value}{suffix}", Precedence.UNARY if value < 0 else Precedence.ATOM)
