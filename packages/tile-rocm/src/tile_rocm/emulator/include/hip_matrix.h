// Matrix instructions on the host: what `tile_rocm/instructions` prints for emulated execution.
//
// Products are exact; sums are float32 (float64, int32, which wraps), k upwards.
#pragma once

#include "tile_formats.h"

namespace tile {

// The formats of 8 bits without infinity and negative zero: its code is NaN, and the bias is one more.
template <int E, int M>
struct Fnuz {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) {
    if (bits == 0x80) return NAN;
    const unsigned exponent = bits >> M & ((1u << E) - 1), mantissa = bits & ((1u << M) - 1);
    constexpr int bias = 1 << (E - 1);
    const float found = ldexpf(static_cast<float>(exponent ? mantissa + (1u << M) : mantissa),
                               static_cast<int>(exponent ? exponent : 1) - bias - M);
    return bits & 0x80 ? -found : found;
  }
};
using E4M3Fnuz = Fnuz<4, 3>;
using E5M2Fnuz = Fnuz<5, 2>;

// A format whose numbers below 2^-Smallest count as zeros.
template <typename F, int Smallest>
struct Flushed : F {
  static float flushed(float value) { return fabsf(value) < ldexpf(1.0f, -Smallest) ? copysignf(0.0f, value) : value; }
  static float value(typename F::Bits bits) { return flushed(F::value(bits)); }
  static typename F::Bits bits(float value) { return F::bits(flushed(value)); }
};

// A × B + D of one wave. Lane `l` has row l % M of A and column l % M of B, for the part l / M of K where `Groups` parts are
// of different lanes; where it is one, lanes that have the same row must agree. Of D it has column l % M, `Run` rows at a
// time for each of the lanes of that column; its registers are `Stride` apart.
template <unsigned M, unsigned K, typename D, typename A, typename B, unsigned Groups, unsigned Run, unsigned Stride>
void matrix_product(void* d, const void* a, const void* b) {
  constexpr unsigned P = K / Groups;
  using Value = typename D::Value;
  struct Operands {
    Value a[P], b[P];
  } own;
  for (unsigned at = 0; at < P; ++at) own.a[at] = packed<A>(a, at), own.b[at] = packed<B>(b, at);
  const unsigned lane = block.lane(), wave = block.warp_size, blocks = wave / M, count = M / blocks;
  together(live_lanes(), static_cast<const Operands*>(&own), [=](auto held) {
    const unsigned column = lane % M;
    if (Groups == 1 && (memcmp(held(lane)->a, held(column)->a, sizeof(own.a)) != 0 ||
                        memcmp(held(lane)->b, held(column)->b, sizeof(own.b)) != 0))
      stop(Fault::kInstruction, "multiplies operands that the halves of a wave hold differently");
    for (unsigned at = 0; at < count; ++at) {
      const unsigned row = at % Run + Run * (lane / M) + Run * blocks * (at / Run);
      Value sum = packed<D>(d, at * Stride);
      for (unsigned k = 0; k < K; ++k) {
        const unsigned from = Groups == 1 ? 0 : M * (k / P);
        sum = wrapping_sum(sum, held(from + row)->a[k % P] * held(from + column)->b[k % P]);
      }
      pack<D>(d, at * Stride, sum);
    }
    return 0;
  });
}

}  // namespace tile
