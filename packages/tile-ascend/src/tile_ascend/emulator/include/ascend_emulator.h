// Ascend C over the host emulator: what a printed kernel includes when it runs on the CPU.
// One definition a name; a name that a kernel may use and that is missing here is added here.
//
// The threads of a SIMT function are the emulator's. All of them run the program of the core alike: it is the same for
// each, and what acts once, such as a copy, is the work of the first.
#pragma once

#include "tile_async.h"
#include "tile_qualifiers.h"

#define TILE_ONE_SPACE
#define __gm__
#define __ubuf__
#define __vector__
#define __simt_vf__
#define __simt_callee__
#define __launch_bounds__(threads)
#define TILE_UNIFIED_BUFFER(bytes) ((void)0)

typedef unsigned tile_uint2 __attribute__((vector_size(8)));
typedef unsigned tile_uint4 __attribute__((vector_size(16)));
using half = tile::Half;
using bfloat16_t = tile::BFloat16;

#define threadIdx (tile::block.self->index)
#define blockDim (tile::block.block)

// Half as many cores as blocks, so that each walks over two: block and core are not the same.
inline int64_t tile_count_cores() { return (int64_t{tile::block.grid.count()} + 1) / 2; }
inline int64_t asc_get_block_num() { return tile_count_cores(); }
inline int64_t asc_get_block_idx() {
  const tile::Dim3 &at = tile::block.index, &grid = tile::block.grid;
  const int64_t core = at.x + int64_t{grid.x} * (at.y + int64_t{grid.y} * at.z);
  return core < tile_count_cores() ? core : INT64_MAX / 2;
}

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
// Calls of SIMT functions follow each other in the order of the program.
template <auto function, typename... Arguments>
void asc_vf_call(dim3, Arguments... arguments) {
  tile::end_part();
  function(arguments...);
  tile::end_part();
}

#include "ascend_pipes.h"
#include "ascend_cube.h"

// Fibres switch only where they wait: memory is coherent without fences.
#define asc_syncthreads() tile::barrier()
#define asc_threadfence() ((void)0)

inline int32_t asc_shfl(int32_t value, int32_t lane) {
  return tile::exchange(tile::live_lanes(), value, [=](unsigned) { return static_cast<unsigned>(lane) % 32; });
}
inline uint32_t asc_ballot(bool predicate) {
  return static_cast<uint32_t>(tile::ballot(tile::converged_lanes(), predicate));
}
#define asc_activemask() asc_ballot(true)
#define asc_any(predicate) (asc_ballot(predicate) != 0)
#define asc_all(predicate) (asc_ballot(!(predicate)) == 0)

// A plain read-modify-write is atomic here.
template <typename T>
T asc_atomic_cas(T* address, T expected, T wanted) {
  const T old = *address;
  if (old == expected) *address = wanted;
  return old;
}
template <typename T>
T asc_atomic_add(T* address, T value) {
  const T old = *address;
  *address = tile::wrapping_sum(old, value);
  return old;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float exp10f(float x) { return powf(10.0f, x); }
