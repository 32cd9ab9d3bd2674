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

// Floats of 8 bits whose conversions saturate: what is too large, infinity included, becomes the largest finite value.
// `Finite` says that the format has no infinity and one NaN, all ones.
template <int E, int M, bool Finite>
struct Float8 {
  uint8_t bits;

  Float8() = default;
  explicit Float8(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }

  static uint8_t encode(float value) {
    constexpr uint8_t nan = 0x7f, largest = Finite ? 0x7e : ((1 << E) - 1) * (1 << M) - 1;
    if (value != value) return nan;
    uint32_t word;
    memcpy(&word, &value, 4);
    const uint8_t sign = word >> 31 << 7;
    // The codes without a sign are ordered as their values are, so the nearest is found by halving.
    const float magnitude = value < 0 ? -value : value;
    uint8_t low = 0, high = largest;
    while (low < high) {
      const uint8_t middle = (low + high + 1) / 2;
      if (decode(middle) <= magnitude) low = middle; else high = middle - 1;
    }
    if (low == largest) return sign | largest;
    const float below = magnitude - decode(low), above = decode(low + 1) - magnitude;
    return sign | (below > above || (below == above && low % 2) ? low + 1 : low);
  }

  static float decode(uint8_t code) {
    const int exponent = code >> M & ((1 << E) - 1), mantissa = code & ((1 << M) - 1);
    constexpr int bias = (1 << (E - 1)) - 1, top = (1 << E) - 1;
    uint32_t word = 0x7fc00000u;
    float value;
    memcpy(&value, &word, 4);
    if (Finite ? (code & 0x7f) != 0x7f : exponent != top || mantissa == 0) {
      value = exponent ? 1.0f + mantissa / float(1 << M) : mantissa / float(1 << M);
      for (int at = exponent ? exponent : 1; at > bias; --at) value *= 2.0f;
      for (int at = exponent ? exponent : 1; at < bias; ++at) value *= 0.5f;
      if (!Finite && exponent == top) word = 0x7f800000u, memcpy(&value, &word, 4);
    }
    return code >> 7 ? -value : value;
  }
};

using Half = SmallFloat<5, 10>;
using BFloat16 = SmallFloat<8, 7>;

}  // namespace tile
