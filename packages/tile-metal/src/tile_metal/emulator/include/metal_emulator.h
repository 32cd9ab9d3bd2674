// The Metal Shading Language over the host emulator: its types and functions, and its address spaces as words that mean
// nothing. One definition a name; a function that a kernel may use and that is missing here is added here.
#pragma once

// Core's headers use some of the words as names.
#include "tile_checks.h"

#define TILE_SHARED(bytes) static_assert(bytes <= 32768, "threadgroup memory")

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned;
using ulong = unsigned long;
using half = tile::Half;
using bfloat = tile::BFloat16;
typedef uchar uchar2 __attribute__((vector_size(2)));
typedef ushort ushort2 __attribute__((vector_size(4)));
typedef uint uint2 __attribute__((vector_size(8)));
typedef uint uint4 __attribute__((vector_size(16)));
struct uint3 {
  uint x, y, z;
};
inline uint3 tile_index(const tile::Dim3& from) { return {from.x, from.y, from.z}; }

template <typename To, typename From>
To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type takes a value of the same size");
  To bits;
  memcpy(&bits, &value, sizeof(To));
  return bits;
}

namespace metal {

using std::ceil, std::copysign, std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::fmod, std::isfinite,
    std::isinf, std::isnan, std::nextafter, std::rint, std::round, std::trunc;
inline uint popcount(uint x) { return static_cast<uint>(__builtin_popcount(x)); }
inline ulong popcount(ulong x) { return static_cast<ulong>(__builtin_popcountl(x)); }
inline uint clz(uint x) { return x == 0 ? 32 : static_cast<uint>(__builtin_clz(x)); }
inline ulong clz(ulong x) { return x == 0 ? 64 : static_cast<ulong>(__builtin_clzl(x)); }

namespace precise {
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cos, std::cosh, std::exp,
    std::exp2, std::log, std::log10, std::log2, std::pow, std::sin, std::sinh, std::sqrt, std::tan, std::tanh;
inline float exp10(float x) { return ::exp10f(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
}  // namespace precise

// Fibres switch only where they wait: memory is coherent without fences.
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) {
  return static_cast<mem_flags>(static_cast<int>(a) | static_cast<int>(b));
}
inline void threadgroup_barrier(mem_flags) { tile::barrier(); }
inline void simdgroup_barrier(mem_flags) { tile::meet_warp(tile::live_lanes(), true); }

struct simd_vote {
  using vote_t = ulong;
  vote_t lanes;
  explicit operator vote_t() const { return lanes; }
};
inline simd_vote simd_ballot(bool predicate) { return {tile::ballot(tile::converged_lanes(), predicate)}; }
inline bool simd_any(bool predicate) { return simd_ballot(predicate).lanes != 0; }
inline bool simd_all(bool predicate) { return simd_ballot(!predicate).lanes == 0; }
template <typename T>
T simd_shuffle(T value, ushort lane) {
  return tile::exchange(tile::live_lanes(), value, [=](unsigned) { return static_cast<unsigned>(lane); });
}

// The lane that holds an element of a matrix of 8 x 8, beside its neighbour in the row: `tile_metal/simdgroup.py`.
inline unsigned tile_lane_of(unsigned row, unsigned column) {
  return row % 4 * 2 + row / 4 * 16 + column / 2 % 2 + column / 4 * 8;
}
template <typename T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "matrices are of 8 x 8");
  T elements[2];
  T* thread_elements() { return elements; }
  void gather(float (&all)[8][8]) const {
    struct Pair {
      T values[2];
    };
    tile::together(tile::live_lanes(), Pair{{elements[0], elements[1]}}, [&](auto values) {
      for (unsigned row = 0; row < 8; ++row)
        for (unsigned column = 0; column < 8; ++column)
          all[row][column] = values(tile_lane_of(row, column)).values[column % 2];
      return 0;
    });
  }
};
template <typename T, typename U>
void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8>& d, const simdgroup_matrix<U, 8, 8>& a,
                                   const simdgroup_matrix<U, 8, 8>& b, const simdgroup_matrix<T, 8, 8>& c) {
  if (tile::live_lanes() != 0xffffffffu)
    tile::stop(tile::Fault::kInstruction, "multiplies matrices of a SIMD-group whose other lanes have ended");
  float left[8][8], right[8][8];
  a.gather(left), b.gather(right);
  const unsigned lane = tile::block.lane(), row = lane / 2 % 4 + lane / 16 * 4, column = lane % 2 * 2 + lane / 8 % 2 * 4;
  for (unsigned i = 0; i < 2; ++i) {
    float sum = c.elements[i];
    for (unsigned k = 0; k < 8; ++k) sum += left[row][k] * right[k][column + i];
    d.elements[i] = sum;
  }
}

// A plain read-modify-write is atomic here.
enum memory_order { memory_order_relaxed };
template <typename T>
struct tile_atomic_of {
  T value;
};
using atomic_int = tile_atomic_of<int>;
using atomic_uint = tile_atomic_of<uint>;
using atomic_float = tile_atomic_of<float>;
template <typename T>
T atomic_load_explicit(const tile_atomic_of<T>* at, memory_order) {
  return at->value;
}
template <typename T>
void atomic_store_explicit(tile_atomic_of<T>* at, T value, memory_order) {
  at->value = value;
}
template <typename T>
bool atomic_compare_exchange_weak_explicit(tile_atomic_of<T>* at, T* expected, T wanted, memory_order, memory_order) {
  const bool is_same = at->value == *expected;
  if (is_same) at->value = wanted; else *expected = at->value;
  return is_same;
}
#define TILE_ATOMIC(name, combined)                                                   \
  template <typename T>                                                                 \
  T atomic_fetch_##name##_explicit(tile_atomic_of<T>* at, T value, memory_order) { \
    const T old = at->value;                                                            \
    at->value = combined;                                                               \
    return old;                                                                         \
  }
TILE_ATOMIC(add, tile::wrapping_sum(old, value))
TILE_ATOMIC(max, old > value ? old : value)
TILE_ATOMIC(min, old < value ? old : value)
TILE_ATOMIC(or, old | value)

}  // namespace metal

#define constant const
#define device
#define kernel
#define thread
#define threadgroup
