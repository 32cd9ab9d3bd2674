// CUDA C++ names over the host emulator: what a printed kernel includes when it runs on the CPU.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>

#include "tile_emulator.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local
#define __restrict__

#define threadIdx (tile::block.self->index)
#define blockIdx (tile::block.index)
#define blockDim (tile::block.block)
#define gridDim (tile::block.grid)

thread_local __align__(1024) unsigned char tile_shared[tile::kSharedBytes];

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
using __half = tile::Half;
using __nv_bfloat16 = tile::BFloat16;

inline void __syncthreads() { tile::block.barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { tile::block.warp_barrier(mask); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return tile::exchange(mask, value, [=](unsigned lane) { return lane / width * width + source % width; });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  return tile::exchange(mask, value, [=](unsigned lane) { return lane ^ static_cast<unsigned>(distance); });
}

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
  *address = old + value;
  return old;
}

inline float __int_as_float(int bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
