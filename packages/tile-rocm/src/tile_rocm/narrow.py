"""Floats of 8 bits in HIP C++: they are only stored, and converted by integer arithmetic that every architecture has.

`T.cast` rounds to nearest, halves to even, and saturates. The formats with `fnuz` have no infinity and no negative
zero, whose code is their only NaN (OCP 8-bit floating point specification; AMD CDNA 3 ISA guide, "Float8 formats").
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import Snippet

FLOAT8: Mapping[str, str] = {
    "float8_e4m3fn": "tile_e4m3fn",
    "float8_e5m2": "tile_e5m2",
    "float8_e4m3fnuz": "tile_e4m3fnuz",
    "float8_e5m2fnuz": "tile_e5m2fnuz",
}
"""The types of 8 bits."""
TYPE_SNIPPETS: Mapping[str, str] = dict.fromkeys(FLOAT8, "tile_float8")

_FLOAT8 = """
// A float of 8 bits, `Mantissa` of them below an exponent with `Bias`. `Most` is the code of the largest number; codes
// above it are infinite or no numbers, where `IsFnuz` only 0x80 is none.
template <int Mantissa, int Bias, unsigned Most, bool IsFnuz>
struct tile_float8 {
  unsigned char bits;
  tile_float8() = default;
  __device__ __forceinline__ explicit tile_float8(float value) {
    unsigned word;
    __builtin_memcpy(&word, &value, sizeof(word));
    const unsigned sign = word >> 24 & 0x80, magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      bits = static_cast<unsigned char>(IsFnuz ? 0x80 : sign | 0x7f);
      return;
    }
    constexpr int kDropped = 23 - Mantissa;
    unsigned code;
    if (magnitude < (128u - Bias) << 23) {
      // Below the normal numbers codes count steps of one size, and so do these floats.
      float steps;
      __builtin_memcpy(&steps, &magnitude, sizeof(steps));
      const unsigned step = static_cast<unsigned>(126 + Bias + Mantissa) << 23;
      float scale;
      __builtin_memcpy(&scale, &step, sizeof(scale));
      code = static_cast<unsigned>(__builtin_nearbyintf(steps * scale));
    } else {
      const unsigned rounded = magnitude + ((1u << (kDropped - 1)) - 1) + (magnitude >> kDropped & 1);
      code = (rounded >> kDropped) - (static_cast<unsigned>(127 - Bias) << Mantissa);
    }
    if (code > Most) code = Most;
    bits = static_cast<unsigned char>(IsFnuz && code == 0 ? 0 : sign | code);
  }
  __device__ __forceinline__ operator float() const {
    const unsigned sign = static_cast<unsigned>(bits & 0x80) << 24, magnitude = bits & 0x7f;
    const bool is_special = IsFnuz ? bits == 0x80 : magnitude > Most;
    const unsigned exponent = magnitude >> Mantissa, mantissa = magnitude & ((1u << Mantissa) - 1);
    unsigned word = (exponent + (127 - Bias)) << 23 | mantissa << (23 - Mantissa);
    if (exponent == 0) {
      const unsigned step = static_cast<unsigned>(128 - Bias - Mantissa) << 23;
      float value;
      __builtin_memcpy(&value, &step, sizeof(value));
      value *= static_cast<float>(mantissa);
      __builtin_memcpy(&word, &value, sizeof(word));
    }
    if (is_special) word = !IsFnuz && Most == 0x7b && magnitude == 0x7c ? 0x7f800000 : 0x7fc00000;
    word |= sign;
    float value;
    __builtin_memcpy(&value, &word, sizeof(value));
    return value;
  }
};
typedef tile_float8<3, 7, 0x7e, false> tile_e4m3fn;
typedef tile_float8<2, 15, 0x7b, false> tile_e5m2;
typedef tile_float8<3, 8, 0x7f, true> tile_e4m3fnuz;
typedef tile_float8<2, 16, 0x7f, true> tile_e5m2fnuz;
"""
SNIPPETS: Mapping[str, Snippet] = {"tile_float8": Snippet(_FLOAT8)}
