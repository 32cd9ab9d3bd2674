"""Bits of bfloat16 and of floats of 8, 6 and 4 bits to float32 and back, as integer code that works on vectors.

TVM's own expansions lose NaN (bfloat16), and zero, subnormals, NaN and infinities (8 bits). The rules are those of
`tile_core.dtypes.casts`: to nearest, ties to even; overflow gives the largest finite value for 8 bits, infinity for
bfloat16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType, FloatFormat

MANTISSA = 23
BIAS = 127
INFINITY = 0x7F800000
QUIET_NAN = 0x7FC00000


def is_narrow(dtype: str) -> bool:
    """Whether a scalar dtype is a float that TVM's code generator does not compute with."""
    return dtype == "bfloat16" or dtype.startswith(("float8_", "float6_", "float4_"))


def float32_bits(value: float) -> int:
    """The bits of a float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


@dataclass(frozen=True)
class NarrowFloat:
    """Conversions of one narrow dtype, for vectors of `lanes` elements."""

    dtype: DType
    lanes: int = 1

    @property
    def form(self) -> FloatFormat:
        """The layout of the bits."""
        form = self.dtype.float_format
        assert form is not None
        return form

    @property
    def storage(self) -> str:
        """The unsigned dtype that holds the bits."""
        return self._typed(f"uint{max(self.dtype.bits, 8)}")

    def decode(self, bits: ir.Expr) -> ir.Expr:
        """The float32 value of `bits`, an expression of dtype `storage`; exact."""
        return self._once("code", E.Cast(self._typed("uint32"), bits), self._decode)

    def _once(self, name: str, value: ir.Expr, body: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
        """`body(value)` with the value computed once."""
        var = tirx.Var(name, value.ty)
        return E.Let(var, value, body(var))

    def _decode(self, wide: ir.Expr) -> ir.Expr:
        if self.dtype == "bfloat16":
            return self._float(tirx.shift_left(wide, self._word(16)))
        if not self.form.signed:
            return self._decode_scale(wide)
        width = self.form.exponent + self.form.mantissa
        magnitude = tirx.bitwise_and(wide, self._word((1 << width) - 1))
        sign = tirx.shift_left(tirx.shift_right(wide, self._word(width)), self._word(31))
        value = self._decode_special(self._decode_finite(magnitude), magnitude, wide)
        return self._float(tirx.bitwise_or(value, sign))

    def _decode_finite(self, magnitude: ir.Expr) -> ir.Expr:
        form = self.form
        scale = 2.0 ** (1 - form.bias - form.mantissa)
        subnormal = E.Mul(E.Cast(self._typed("float32"), E.Cast(self._typed("int32"), magnitude)), self._real(scale))
        shifted = tirx.shift_left(magnitude, self._word(MANTISSA - form.mantissa))
        normal = E.Add(shifted, self._word((BIAS - form.bias) << MANTISSA))
        return E.Select(E.LT(magnitude, self._word(1 << form.mantissa)), self._bits(subnormal), normal)

    def _decode_special(self, value: ir.Expr, magnitude: ir.Expr, wide: ir.Expr) -> ir.Expr:
        form = self.form
        if form.encoding == "ieee":
            infinity = ((1 << form.exponent) - 1) << form.mantissa
            fraction = tirx.bitwise_and(magnitude, self._word((1 << form.mantissa) - 1))
            special = tirx.shift_left(fraction, self._word(MANTISSA - form.mantissa))
            special = tirx.bitwise_or(special, self._word(INFINITY))
            return E.Select(E.GE(magnitude, self._word(infinity)), special, value)
        if form.encoding == "fn":
            all_ones = (1 << (form.exponent + form.mantissa)) - 1
            return E.Select(E.EQ(magnitude, self._word(all_ones)), self._word(QUIET_NAN), value)
        if form.encoding == "fnuz":
            return E.Select(E.EQ(wide, self._word(0x80)), self._word(QUIET_NAN), value)
        return value

    def _decode_scale(self, wide: ir.Expr) -> ir.Expr:
        """8 exponent bits: 2^(code - 127); code 0 is a subnormal of float32, 255 is NaN."""
        value = tirx.shift_left(wide, self._word(MANTISSA))
        value = E.Select(E.EQ(wide, self._word(0)), self._word(1 << (MANTISSA - 1)), value)
        return self._float(E.Select(E.EQ(wide, self._word(255)), self._word(QUIET_NAN), value))

    def encode(self, value: ir.Expr) -> ir.Expr:
        """The bits of the narrow value nearest to a float32 `value`, of dtype `storage`."""
        return self._once("word", self._bits(value), self._encode)

    def encode_exact(self, value: ir.Expr) -> ir.Expr:
        """The bits of a float32 `value` that is one of the narrow dtype's, which an infinity may be."""
        if self.dtype.bits > 8 or not self.form.has_infinity:
            return self.encode(value)
        return self._once("word", self._bits(value), self._encode_with_infinity)

    def _encode_with_infinity(self, bits: ir.Expr) -> ir.Expr:
        infinite = E.EQ(tirx.bitwise_and(bits, self._word(0x7FFFFFFF)), self._word(INFINITY))
        largest = self._encode(bits)
        return E.Select(infinite, E.Add(largest, E.Cast(self.storage, self._word(1))), largest)

    def _encode(self, bits: ir.Expr) -> ir.Expr:
        magnitude = tirx.bitwise_and(bits, self._word(0x7FFFFFFF))
        is_nan = E.GT(magnitude, self._word(INFINITY))
        if self.dtype == "bfloat16":
            quiet = tirx.bitwise_or(tirx.shift_right(bits, self._word(16)), self._word(0x40))
            return E.Cast(self.storage, E.Select(is_nan, quiet, self._rounded(bits, 16)))
        if not self.form.signed:
            return E.Cast(self.storage, E.Select(is_nan, self._word(255), self._encode_scale(magnitude)))
        return E.Cast(self.storage, self._signed(E.Min(self._encode_finite(magnitude), self._largest()), bits, is_nan))

    def _encode_finite(self, magnitude: ir.Expr) -> ir.Expr:
        form = self.form
        rounded = self._rounded(magnitude, MANTISSA - form.mantissa)
        normal = E.Sub(rounded, self._word((BIAS - form.bias) << form.mantissa))
        # Adding a power of two whose last place is the narrow format's smallest value rounds to a multiple of it.
        magic = 2.0 ** (1 - form.bias - form.mantissa + MANTISSA)
        shifted = self._bits(E.Add(self._float(magnitude), self._real(magic)))
        subnormal = E.Sub(shifted, self._word(float32_bits(magic)))
        smallest = self._word(float32_bits(2.0 ** (1 - form.bias)))
        return E.Select(E.LT(magnitude, smallest), subnormal, normal)

    def _largest(self) -> ir.Expr:
        """The code of the largest finite value."""
        form = self.form
        codes = 1 << (form.exponent + form.mantissa)
        taken = {"ieee": 1 << form.mantissa, "fn": 1}.get(form.encoding, 0)
        return self._word(codes - taken - 1)

    def _signed(self, code: ir.Expr, bits: ir.Expr, is_nan: ir.Expr) -> ir.Expr:
        form = self.form
        width = form.exponent + form.mantissa
        sign = tirx.shift_left(tirx.shift_right(bits, self._word(31)), self._word(width))
        signed = tirx.bitwise_or(code, sign)
        if form.encoding == "fnuz":
            signed = E.Select(E.EQ(code, self._word(0)), self._word(0), signed)
            return E.Select(is_nan, self._word(0x80), signed)
        nan = (1 << width) - 1 if form.has_nan else None
        if nan is None:
            return E.Select(is_nan, self._largest(), signed)
        return E.Select(is_nan, tirx.bitwise_or(self._word(nan), sign), signed)

    def _encode_scale(self, magnitude: ir.Expr) -> ir.Expr:
        half = self._word(1 << (MANTISSA - 1))
        lowest = E.Select(E.LE(magnitude, half), self._word(0), self._word(1))
        # Halfway between two powers of two (1.5 times the lower) goes up.
        code = E.Min(tirx.shift_right(E.Add(magnitude, half), self._word(MANTISSA)), self._word(254))
        return E.Select(E.LT(magnitude, self._word(1 << MANTISSA)), lowest, code)

    def _rounded(self, bits: ir.Expr, places: int) -> ir.Expr:
        """`bits / 2^places`, to nearest, ties to even."""
        odd = tirx.bitwise_and(tirx.shift_right(bits, self._word(places)), self._word(1))
        biased = E.Add(E.Add(bits, self._word((1 << (places - 1)) - 1)), odd)
        return tirx.shift_right(biased, self._word(places))

    def _typed(self, dtype: str) -> str:
        return dtype if self.lanes == 1 else f"{dtype}x{self.lanes}"

    def _spread(self, scalar: ir.Expr) -> ir.Expr:
        return scalar if self.lanes == 1 else E.Broadcast(scalar, self.lanes)

    def _word(self, value: int) -> ir.Expr:
        return self._spread(E.IntImm("uint32", value))

    def _real(self, value: float) -> ir.Expr:
        return self._spread(E.FloatImm("float32", value))

    def _bits(self, value: ir.Expr) -> ir.Expr:
        return tirx.reinterpret(self._typed("uint32"), value)

    def _float(self, bits: ir.Expr) -> ir.Expr:
        return tirx.reinterpret(self._typed("float32"), bits)
