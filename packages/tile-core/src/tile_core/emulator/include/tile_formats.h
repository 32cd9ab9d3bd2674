// Formats of the elements that matrix instructions multiply: the value of bits, and the bits of a value.
#pragma once

#include <math.h>

#include "tile_emulator.h"
#include "tile_small_float.h"

namespace tile {

template <typename To, typename From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the types have different sizes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Formats of elements. `value` of the bits, and `bits` of a value for those that results have.
struct F64 {
  using Bits = uint64_t;
  using Value = double;
  static constexpr unsigned kBits = 64;
  static double value(uint64_t bits) { return bit_cast<double>(bits); }
  static uint64_t bits(double value) { return bit_cast<uint64_t>(value); }
};
struct F32 {
  using Bits = uint32_t;
  using Value = float;
  static constexpr unsigned kBits = 32;
  static float value(uint32_t bits) { return bit_cast<float>(bits); }
  static uint32_t bits(float value) { return bit_cast<uint32_t>(value); }
};
// The low 13 bits are not looked at.
struct TF32 {
  using Bits = uint32_t;
  using Value = float;
  static constexpr unsigned kBits = 32;
  static float value(uint32_t bits) { return F32::value(bits & 0xffffe000u); }
};
// To nearest, halves away from zero.
inline float round_tf32(float value) {
  const uint32_t bits = F32::bits(value);
  if (value != value) return F32::value((bits | 0x400000u) & 0xffffe000u);
  return (bits & 0x7f800000u) == 0x7f800000u ? value : F32::value((bits + 0x1000u) & 0xffffe000u);
}
template <int E, int M>
struct Narrow {
  using Bits = uint16_t;
  using Value = float;
  static constexpr unsigned kBits = 16;
  static float value(uint16_t bits) { return SmallFloat<E, M>::decode(bits); }
  static uint16_t bits(float value) { return SmallFloat<E, M>::encode(value); }
};
using F16 = Narrow<5, 10>;
using BF16 = Narrow<8, 7>;
struct E5M2 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) { return SmallFloat<5, 2>::decode(bits); }
};
// No infinities: the codes above 448 but the last are values, and the last is NaN.
struct E4M3 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) {
    const unsigned magnitude = bits & 0x7f;
    if (magnitude == 0x7f) return NAN;
    const float found = magnitude < 0x78 ? SmallFloat<4, 3>::decode(static_cast<uint16_t>(magnitude))
                                         : 256.0f + 32.0f * static_cast<float>(magnitude - 0x78);
    return bits & 0x80 ? -found : found;
  }
};
// A float of less than 8 bits without infinity and NaN, whose lowest bit is bit `Low` of a byte.
template <int E, int M, int Low>
struct Tiny {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8, kLow = Low;
  static float value(uint8_t bits) {
    const unsigned code = bits >> Low, exponent = code >> M & ((1u << E) - 1), mantissa = code & ((1u << M) - 1);
    constexpr int bias = (1 << (E - 1)) - 1;
    const float found = ldexpf(static_cast<float>(exponent ? mantissa + (1u << M) : mantissa),
                               static_cast<int>(exponent ? exponent : 1) - bias - M);
    return code >> (E + M) & 1 ? -found : found;
  }
};
using E3M2 = Tiny<3, 2, 0>;
using E2M3 = Tiny<2, 3, 0>;
using E2M1 = Tiny<2, 1, 2>;
template <typename T>
struct Integer {
  using Bits = T;
  using Value = int32_t;
  static constexpr unsigned kBits = 8 * sizeof(T);
  static int32_t value(T bits) { return bits; }
  static T bits(int32_t value) { return static_cast<T>(value); }
};
using S32 = Integer<int32_t>;
using S8 = Integer<int8_t>;
using U8 = Integer<uint8_t>;
struct S4 : Integer<uint8_t> {
  static constexpr unsigned kBits = 4;
  static int32_t value(uint8_t bits) { return (bits ^ 8) - 8; }
};
struct U4 : Integer<uint8_t> {
  static constexpr unsigned kBits = 4;
};

// Element `at` of packed elements.
template <typename F>
typename F::Value packed(const void* base, size_t at) {
  typename F::Bits bits;
  if (F::kBits >= 8) {
    memcpy(&bits, static_cast<const char*>(base) + at * sizeof(bits), sizeof(bits));
  } else {
    bits = static_cast<typename F::Bits>(static_cast<const uint8_t*>(base)[at / 2] >> 4 * (at % 2) & 0xf);
  }
  return F::value(bits);
}
template <typename F>
void pack(void* base, size_t at, typename F::Value value) {
  const typename F::Bits bits = F::bits(value);
  memcpy(static_cast<char*>(base) + at * sizeof(bits), &bits, sizeof(bits));
}

}  // namespace tile
