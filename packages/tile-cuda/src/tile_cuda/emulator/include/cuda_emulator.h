// CUDA C++ names over the host emulator: what a printed kernel includes when it runs on the CPU. One definition a name; an
// intrinsic that a kernel may use and that is missing here is added here.
#pragma once

#include "cuda_async.h"
#include "cuda_tcgen05.h"
#include "cuda_math.h"
#include "tile_qualifiers.h"

#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__
#define __grid_constant__

#define threadIdx (tile::block.self->index)
#define blockIdx (tile::block.index)
#define blockDim (tile::block.block)
#define gridDim (tile::block.grid)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(32) ulonglong4_32a {
  unsigned long long x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
using __half = tile::Half;
using __nv_bfloat16 = tile::BFloat16;
// Two values that are computed on together; each rounds as it would alone.
template <typename T>
struct alignas(2 * sizeof(T)) TilePair {
  T x, y;
};
using __half2 = TilePair<__half>;
using __nv_bfloat162 = TilePair<__nv_bfloat16>;
template <typename T>
TilePair<T> __hadd2(TilePair<T> a, TilePair<T> b) {
  return {a.x + b.x, a.y + b.y};
}
template <typename T>
TilePair<T> __hsub2(TilePair<T> a, TilePair<T> b) {
  return {a.x - b.x, a.y - b.y};
}
template <typename T>
TilePair<T> __hmul2(TilePair<T> a, TilePair<T> b) {
  return {a.x * b.x, a.y * b.y};
}
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) { return {value, value}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }

inline void __syncthreads() { tile::barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { tile::meet_warp(mask, true); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return tile::exchange(mask, value,
                        [=](unsigned lane) { return lane / width * width + static_cast<unsigned>(source) % width; });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  return tile::exchange(mask, value, [=](unsigned lane) {
    // Groups of lanes above are out of reach, those below are not.
    const unsigned from = lane ^ static_cast<unsigned>(distance);
    return from > (lane | (width - 1u)) ? lane : from;
  });
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return tile::exchange(mask, value, [=](unsigned lane) { return lane % width < distance ? lane : lane - distance; });
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return tile::exchange(mask, value,
                        [=](unsigned lane) { return lane % width + distance >= unsigned(width) ? lane : lane + distance; });
}
inline __attribute__((always_inline)) unsigned __activemask() {
  return static_cast<unsigned>(tile::converged_lanes());
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(tile::ballot(mask, predicate != 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __syncthreads_count(int predicate) { return static_cast<int>(tile::count_threads(predicate != 0)); }
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <typename T>
unsigned __match_any_sync(unsigned mask, T value) {
  return static_cast<unsigned>(tile::match_any(mask, value));
}
template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* all) {
  const unsigned same = __match_any_sync(mask, value), present = mask & static_cast<unsigned>(tile::live_lanes());
  *all = __ballot_sync(mask, same == present) == present;
  return *all ? same : 0u;
}
template <typename T>
T __reduce_add_sync(unsigned mask, T value) {
  return tile::reduce(mask, value, [](T a, T b) { return tile::wrapping_sum(a, b); });
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value) {
  return tile::reduce(mask, value, [](T a, T b) { return a > b ? a : b; });
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value) {
  return tile::reduce(mask, value, [](T a, T b) { return a < b ? a : b; });
}

// Memory is coherent without fences.
inline void __threadfence() {}
inline void __threadfence_block() {}

// Fibres switch only where they wait, so a plain read-modify-write is atomic.
template <typename T>
T atomicCAS(T* address, T expected, T wanted) {
  const T old = *address;
  if (old == expected) *address = wanted;
  return old;
}
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = tile::wrapping_sum(old, value);
  return old;
}

inline float __int_as_float(int bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
