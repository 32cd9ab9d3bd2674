// Functions of scalars that CUDA C++ has beyond the standard library's.
#pragma once

#include <fenv.h>
#include <math.h>
#include <string.h>

// Those with fewer digits are the exact ones here.
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }

// Arithmetic rounded by a mode. `volatile` keeps the compiler from computing in another one.
template <typename Operation>
__attribute__((noinline)) auto tile_rounded(int mode, Operation operation) {
  const int before = fegetround();
  fesetround(mode);
  const auto result = operation();
  fesetround(before);
  return result;
}
#define TILE_ROUNDED(mode, constant)                                                                               \
  TILE_ROUNDED_OF(float, f, f, mode, constant)                                                                     \
  TILE_ROUNDED_OF(double, d, , mode, constant)                                                                     \
  inline float __fmaf_##mode(float x, float y, float z) { TILE_COMPUTED(float, constant, fmaf(a, b, c)) }        \
  inline double __fma_##mode(double x, double y, double z) { TILE_COMPUTED(double, constant, fma(a, b, c)) }
#define TILE_ROUNDED_OF(T, letter, suffix, mode, constant)                                                         \
  inline T __##letter##add_##mode(T x, T y, T z = 0) { TILE_COMPUTED(T, constant, a + b) }                       \
  inline T __##letter##sub_##mode(T x, T y, T z = 0) { TILE_COMPUTED(T, constant, a - b) }                       \
  inline T __##letter##mul_##mode(T x, T y, T z = 0) { TILE_COMPUTED(T, constant, a * b) }                       \
  inline T __##letter##div_##mode(T x, T y, T z = 0) { TILE_COMPUTED(T, constant, a / b) }                       \
  inline T __##letter##rcp_##mode(T x, T y = 0, T z = 0) { TILE_COMPUTED(T, constant, T(1) / a) }                \
  inline T __##letter##sqrt_##mode(T x, T y = 0, T z = 0) { TILE_COMPUTED(T, constant, sqrt##suffix(a)) }
#define TILE_COMPUTED(T, constant, expression)                \
  return tile_rounded(constant, [x, y, z] {                   \
    const volatile T a = x, b = y, c = z;                     \
    (void)b, (void)c;                                         \
    const volatile T result = expression;                     \
    return T(result);                                         \
  });
TILE_ROUNDED(rn, FE_TONEAREST)
TILE_ROUNDED(rz, FE_TOWARDZERO)
TILE_ROUNDED(ru, FE_UPWARD)
TILE_ROUNDED(rd, FE_DOWNWARD)
// In double, so that the one rounding is the last.
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(unsigned bits) { return bits == 0 ? 32 : __builtin_clz(bits); }
inline int __clzll(unsigned long long bits) { return bits == 0 ? 64 : __builtin_clzll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
// PTX ISA, "fns": the bit that is the |offset|-th 1 from `base` upward, or downward for a negative offset.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return mask >> base & 1 ? base : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  unsigned left = static_cast<unsigned>(offset > 0 ? offset : -offset);
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step) {
    left -= mask >> at & 1;
    if (left == 0) return static_cast<unsigned>(at);
  }
  return 0xffffffffu;
}
template <typename T>
T __ldg(const T* address) {
  return *address;
}
