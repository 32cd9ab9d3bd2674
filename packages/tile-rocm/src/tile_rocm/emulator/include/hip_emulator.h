// HIP C++ over the host emulator: what a printed kernel includes when it runs on the CPU. A wave's width is the target's.
// One definition a name; a builtin that a kernel may use and that is missing here is added here.
#pragma once

#include "hip_matrix.h"
#include "tile_qualifiers.h"

#define amdgpu_flat_work_group_size(least, most) unused
#define TILE_WAVE tile::block.warp_size

typedef unsigned tile_uint2 __attribute__((vector_size(8)));
typedef unsigned tile_uint4 __attribute__((vector_size(16)));
using half_t = tile::Half;
using bfloat16_t = tile::BFloat16;

#define __builtin_amdgcn_workitem_id_x() (tile::block.self->index.x)
#define __builtin_amdgcn_workitem_id_y() (tile::block.self->index.y)
#define __builtin_amdgcn_workitem_id_z() (tile::block.self->index.z)
#define __builtin_amdgcn_workgroup_id_x() (tile::block.index.x)
#define __builtin_amdgcn_workgroup_id_y() (tile::block.index.y)
#define __builtin_amdgcn_workgroup_id_z() (tile::block.index.z)

// Fibres switch only where they wait: memory is coherent without fences.
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_s_barrier() tile::barrier()
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_wave_barrier() tile::meet_warp(tile::live_lanes(), false)

// The bits of `mask` below this lane, in its lower and its upper half.
inline unsigned tile_count_below(unsigned mask, unsigned first, unsigned start) {
  const unsigned lane = tile::block.lane();
  for (unsigned bit = 0; bit < 32 && first + bit < lane; ++bit) start += mask >> bit & 1;
  return start;
}
#define __builtin_amdgcn_mbcnt_lo(mask, start) tile_count_below(mask, 0, start)
#define __builtin_amdgcn_mbcnt_hi(mask, start) tile_count_below(mask, 32, start)

// AMD ISA guides, DS_BPERMUTE_B32: every lane reads the register of the lane at a quarter of its address, modulo the wave.
inline int tile_bpermute(int address, int value) {
  const unsigned from = static_cast<unsigned>(address) / 4 % tile::block.warp_size;
  return tile::exchange(tile::live_lanes(), value, [=](unsigned) { return from; });
}
#define __builtin_amdgcn_ds_bpermute(address, value) tile_bpermute(address, value)
inline int tile_readlane(int value, int lane) {
  return tile::exchange(tile::live_lanes(), value, [=](unsigned) { return static_cast<unsigned>(lane); });
}
#define __builtin_amdgcn_readlane(value, lane) tile_readlane(value, lane)
#define __builtin_amdgcn_readfirstlane(value) tile_readlane(value, __builtin_ctzll(tile::live_lanes()))
#define __builtin_amdgcn_ballot_w64(predicate) tile::ballot(tile::converged_lanes(), predicate)
#define __builtin_amdgcn_ballot_w32(predicate) static_cast<unsigned>(tile::ballot(tile::converged_lanes(), predicate))

// A plain read-modify-write is atomic here.
#define __HIP_MEMORY_SCOPE_AGENT 4
template <typename T>
bool __hip_atomic_compare_exchange_strong(T* address, T* expected, T wanted, int, int, int) {
  const T old = *address;
  const bool same = old == *expected;
  if (same) *address = wanted;
  *expected = old;
  return same;
}
template <typename T>
T __hip_atomic_fetch_add(T* address, T value, int, int) {
  const T old = *address;
  *address = tile::wrapping_sum(old, value);
  return old;
}

// The device library.
#define TILE_OCML_1(name)                                                       \
  extern "C" inline float __ocml_##name##_f32(float x) { return name##f(x); } \
  extern "C" inline double __ocml_##name##_f64(double x) { return name(x); }
#define TILE_OCML_2(name)                                                                    \
  extern "C" inline float __ocml_##name##_f32(float x, float y) { return name##f(x, y); } \
  extern "C" inline double __ocml_##name##_f64(double x, double y) { return name(x, y); }
TILE_OCML_1(exp)
TILE_OCML_1(exp2)
TILE_OCML_1(exp10)
TILE_OCML_1(log)
TILE_OCML_1(log2)
TILE_OCML_1(log10)
TILE_OCML_1(log1p)
TILE_OCML_1(sqrt)
TILE_OCML_1(tanh)
TILE_OCML_1(sin)
TILE_OCML_1(cos)
TILE_OCML_1(tan)
TILE_OCML_1(sinh)
TILE_OCML_1(cosh)
TILE_OCML_1(asin)
TILE_OCML_1(acos)
TILE_OCML_1(atan)
TILE_OCML_1(asinh)
TILE_OCML_1(acosh)
TILE_OCML_1(atanh)
TILE_OCML_1(erf)
TILE_OCML_2(atan2)
TILE_OCML_2(pow)
TILE_OCML_2(hypot)
TILE_OCML_2(nextafter)
TILE_OCML_2(fmod)
extern "C" inline float __ocml_rsqrt_f32(float x) { return 1.0f / sqrtf(x); }
extern "C" inline double __ocml_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
