// The part of CUDA's header that printed kernels use: two storage types and pairs of them.
#pragma once

#include "cuda_emulator.h"

using __nv_fp8_e4m3 = tile::Float8<4, 3, true>;
using __nv_fp8_e5m2 = tile::Float8<5, 2, false>;

struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

template <typename T>
struct alignas(2) Float8Pair {
  T x, y;
  explicit Float8Pair(float2 values) : x(values.x), y(values.y) {}
};
using __nv_fp8x2_e4m3 = Float8Pair<__nv_fp8_e4m3>;
using __nv_fp8x2_e5m2 = Float8Pair<__nv_fp8_e5m2>;
