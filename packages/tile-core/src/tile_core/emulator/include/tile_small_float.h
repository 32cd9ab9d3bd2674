// Narrow floats: the value and the rounding (to nearest, ties to even) of IEEE-like formats.
#pragma once

#include <stdint.h>
#include <string.h>

namespace tile {

// `E` exponent bits and `M` mantissa bits below a sign. Arithmetic rounds after every operation, as hardware does.
template <int E, int M>
struct SmallFloat {
  using Bits = uint16_t;
  Bits bits;

  SmallFloat() = default;
  SmallFloat(float value) : bits(encode(value)) {}
  operator float() const { return decode(bits); }

  static Bits encode(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    const uint32_t sign = word >> 31 << (E + M);
    const uint32_t magnitude = word & 0x7fffffffu;
    constexpr uint32_t infinity = ((1u << E) - 1) << M;
    if (magnitude > 0x7f800000u) return static_cast<Bits>(sign | infinity | 1u << (M - 1));
    if (magnitude == 0x7f800000u) return static_cast<Bits>(sign | infinity);
    constexpr int bias = (1 << (E - 1)) - 1;
    int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
    uint64_t mantissa = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0);
    int drop = 23 - M;
    if (magnitude >> 23 == 0) exponent = 1 - 127 + bias;
    if (exponent <= 0) drop += 1 - exponent, exponent = 1;
    if (drop > 40) return static_cast<Bits>(sign);
    const uint64_t half = uint64_t{1} << (drop - 1), rest = mantissa & (2 * half - 1);
    mantissa >>= drop;
    if (rest > half || (rest == half && (mantissa & 1))) ++mantissa;
    // The hidden bit carries into the exponent by itself.
    const uint64_t encoded = (static_cast<uint64_t>(exponent - 1) << M) + mantissa;
    return static_cast<Bits>(sign | (encoded >= infinity ? infinity : encoded));
  }

  static float decode(Bits bits) {
    const uint32_t sign = static_cast<uint32_t>(bits >> (E + M)) << 31;
    const uint32_t exponent = bits >> M & ((1u << E) - 1), mantissa = bits & ((1u << M) - 1);
    constexpr int bias = (1 << (E - 1)) - 1;
    uint32_t word;
    if (exponent == (1u << E) - 1) {
      word = sign | 0x7f800000u | mantissa << (23 - M);
    } else if (exponent == 0 && E < 8) {
      float value = static_cast<float>(mantissa);
      for (int shift = 0; shift < bias - 1 + M; ++shift) value *= 0.5f;
      memcpy(&word, &value, 4);
      word |= sign;
    } else {
      word = sign | (exponent + 127 - bias) << 23 | mantissa << (23 - M);
    }
    float value;
    memcpy(&value, &word, 4);
    return value;
  }

  friend SmallFloat operator+(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) + float(b)); }
  friend SmallFloat operator-(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) - float(b)); }
  friend SmallFloat operator*(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) * float(b)); }
  friend SmallFloat operator/(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) / float(b)); }
};

using Half = SmallFloat<5, 10>;
using BFloat16 = SmallFloat<8, 7>;

}  // namespace tile
