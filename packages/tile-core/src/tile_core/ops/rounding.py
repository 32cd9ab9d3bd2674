"""Conversions to narrow floats with a rounding mode, from round-to-nearest and the neighbour's bit pattern.

They work on the magnitude, whose bit pattern counts upwards: the value rounded to nearest is at most one step from the
value rounded toward zero, a step away from zero is the pattern plus 1, and infinity is the step beyond the largest
finite value. The sign is put back at the end, where the format has a zero of that sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType
from tile_core.dtypes.dtype import FloatFormat
from tile_core.ops.build import cast, dtype_of, number

FLOAT32 = DType("float32")
_MANTISSA, _BIAS = 23, 127
"""Of float32."""


def directed_cast(
    value: ir.Expr, dtype: DType, rounding: str, *, saturate: bool, random_bits: ir.Expr | None = None
) -> ir.Expr | None:
    """`value` converted as `dtypes.casts.cast` does with these options; `None` for what has no expansion.

    That is a source that float32 does not hold, and a target without a sign or not of one or two bytes.
    """
    source, form = dtype_of(value), dtype.float_format
    if not source.is_float or source.bits > 32 or form is None or not form.signed:
        return None
    if dtype.bits not in (8, 16) or dtype.lanes != 1 or source.lanes != 1:
        return None
    wide, nearest = tirx.Var("wide", FLOAT32.tvm), tirx.Var("nearest", dtype.tvm)
    rounded = _Rounding(dtype, form, rounding, saturate or dtype.bits > 8, wide, nearest, random_bits)
    magnitude = cast(tirx.abs(wide), dtype)
    return E.Let(wide, cast(value, FLOAT32), E.Let(nearest, magnitude, rounded.result()))


@dataclass(frozen=True)
class _Rounding:
    """One conversion of the float32 `wide`, whose magnitude rounded to nearest is `nearest`."""

    dtype: DType
    form: FloatFormat
    mode: str
    saturate: bool
    wide: ir.Var
    nearest: ir.Var
    random_bits: ir.Expr | None

    def result(self) -> ir.Expr:
        """The rounded value."""
        steps = tirx.Add(self._pattern(), self._steps())
        if not self.saturate and self.dtype.bits == 8:
            steps = tirx.Select(self._overflows(), _int(self._beyond()), steps)
        return tirx.reinterpret(self.dtype.tvm, tirx.Cast(f"uint{self.dtype.bits}", self._signed(steps)))

    @property
    def _magnitude(self) -> ir.Expr:
        return tirx.abs(self.wide)

    @property
    def _negative(self) -> ir.Expr:
        return tirx.LT(tirx.reinterpret("int32", self.wide), _int(0))

    @property
    def _is_finite(self) -> ir.Expr:
        return tirx.LT(self._magnitude, _float(np.inf))

    @property
    def _found(self) -> ir.Expr:
        return cast(self.nearest, FLOAT32)

    def _pattern(self) -> ir.Expr:
        return tirx.Cast("int32", tirx.reinterpret(f"uint{self.dtype.bits}", self.nearest))

    def _signed(self, pattern: ir.Expr) -> ir.Expr:
        sign = tirx.Select(self._negative, _int(1 << (self.dtype.bits - 1)), _int(0))
        if self.form.encoding == "fnuz":
            # The pattern of a negative zero is NaN.
            sign = tirx.Select(tirx.EQ(pattern, _int(0)), _int(0), sign)
        return tirx.bitwise_or(pattern, sign)

    def _steps(self) -> ir.Expr:
        """What to add to the pattern of `nearest`: -1, 0 or 1. All comparisons are false for NaN."""
        if self.mode == "rn":
            return _int(0)
        inward = tirx.Select(tirx.GT(self._found, self._magnitude), _int(-1), _int(0))
        if self.mode == "rs":
            steps = tirx.Select(self._goes_up(), tirx.Add(inward, _int(1)), inward)
        else:
            outward = tirx.Select(tirx.LT(self._found, self._magnitude), _int(1), _int(0))
            upward = {"rz": None, "rp": tirx.Not(self._negative), "rm": self._negative}[self.mode]
            steps = inward if upward is None else tirx.Select(upward, outward, inward)
        if self.dtype.bits > 8:
            return steps
        # Beyond the largest finite value the nearest is that value, and stays.
        return tirx.Select(tirx.GE(self._magnitude, _float(self.form.max)), _int(0), steps)

    def _goes_up(self) -> ir.Expr:
        """Whether random bits and the part below the step below make a whole step: bits > ~part as uint32.

        The part is counted in 2**-32 of a step. An infinity has no step.
        """
        assert self.random_bits is not None
        bits = tirx.reinterpret("uint32", self._magnitude)
        if self.form.exponent == 8:
            kept = self.form.mantissa + 32 - _MANTISSA
            part: ir.Expr = tirx.shift_left(bits, tirx.IntImm("uint32", kept))
            return tirx.And(self._is_finite, tirx.GT(self.random_bits, tirx.bitwise_not(part)))
        # The exponent of the step below is that of the magnitude, at least that of the smallest normal value.
        lowest = _BIAS + 1 - self.form.bias
        exponent = tirx.Max(tirx.Cast("int32", tirx.shift_right(bits, tirx.IntImm("uint32", _MANTISSA))), _int(lowest))
        scale = tirx.reinterpret(
            "float32",
            tirx.shift_left(tirx.Sub(_int(2 * _BIAS + self.form.mantissa), exponent), _int(_MANTISSA)),
        )
        scaled = tirx.Mul(self._magnitude, scale)
        below = tirx.Cast("float32", tirx.Cast("int32", scaled))
        part = tirx.Cast("uint32", tirx.Mul(tirx.Sub(scaled, below), _float(2.0**32)))
        carries = tirx.GT(self.random_bits, tirx.bitwise_not(part))
        return tirx.And(self._is_finite, tirx.Or(carries, tirx.GE(self._magnitude, _float(self._behind))))

    def _overflows(self) -> ir.Expr:
        """Whether the rounded value lies beyond the largest finite one of an 8-bit format."""
        largest = _float(self.form.max)
        infinite = tirx.GE(self._magnitude, _float(np.inf))
        beyond = tirx.GT(self._magnitude, largest)
        if self.mode == "rz":
            return infinite
        if self.mode in ("rp", "rm"):
            outward = self._negative if self.mode == "rm" else tirx.Not(self._negative)
            return tirx.Or(infinite, tirx.And(beyond, outward))
        if self.mode == "rs":
            return tirx.Or(infinite, tirx.And(beyond, self._goes_up()))
        # A tie goes to the even mantissa, which is the largest value's own where its last bit is 0.
        halfway = _float((self.form.max + self._behind) / 2)
        return tirx.GT(self._magnitude, halfway) if self._largest() % 2 == 0 else tirx.GE(self._magnitude, halfway)

    @property
    def _behind(self) -> float:
        """The value one step beyond the largest finite one."""
        return self.form.max + 2.0 ** (self.form.max_exponent - self.form.mantissa)

    def _largest(self) -> int:
        """The pattern of the largest finite value."""
        return int(np.array(self.form.max, self.dtype.numpy).view(np.uint8))

    def _beyond(self) -> int:
        """The pattern of what overflow gives: infinity, NaN, or the largest value where there is neither."""
        if self.form.has_infinity or self.form.encoding == "fn":
            return self._largest() + 1
        return 0x80 if self.form.encoding == "fnuz" else self._largest()


def _int(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)


def _float(value: float) -> ir.Expr:
    return number(float(value), FLOAT32)
