// Checked accesses: what a kernel's accesses of memory are printed as when checks are on. Bounds are checked here, axis by
// axis; who wrote and read what is kept by `source/checks.cpp`.
#pragma once

#include "tile_emulator.h"

namespace tile {

enum class Use : unsigned char { kRead, kWrite, kAtomic };
constexpr Use kRead = Use::kRead, kWrite = Use::kWrite, kAtomic = Use::kAtomic;

// The indices of an access and the extents of its buffer.
template <int N>
struct Place {
  int64_t index[N], extent[N];
};
template <>
struct Place<0> {
  static constexpr const int64_t *index = nullptr, *extent = nullptr;
};

struct Access {
  Use use;
  int site;
  unsigned lanes;
  int rank;
  const int64_t *index, *extent;
};

[[noreturn]] void out_of_bounds(const Access& access);
[[noreturn]] void unwritten(const Access& access);
[[noreturn]] void misaligned(const Access& access, unsigned bytes);
// An access of memory that threads share, of `bytes` bytes.
void touch(const volatile void* address, unsigned bytes, const Access& access);

// The element at `flat` of memory that threads share, and the `Lanes - 1` after it.
template <Use U, unsigned Lanes = 1, typename T, int N>
inline T& memory(T* base, int64_t flat, int site, const Place<N>& place) {
  const Access access{U, site, Lanes, N, place.index, place.extent};
  for (int axis = 0; axis < N; ++axis) {
    const int64_t last = place.index[axis] + (axis == N - 1 ? Lanes - 1 : 0);
    if (place.index[axis] < 0 || last >= place.extent[axis]) out_of_bounds(access);
  }
  T* const address = base + flat;
  constexpr unsigned bytes = Lanes * sizeof(T);
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) misaligned(access, bytes);
  touch(address, bytes, access);
  return *address;
}

// The element at `flat` of an array of this thread, of whose elements `written` says which have a value.
template <Use U, unsigned Lanes = 1, typename T, int N>
inline T& local(T* base, bool* written, int64_t flat, int site, const Place<N>& place) {
  const Access access{U, site, Lanes, N, place.index, place.extent};
  for (int axis = 0; axis < N; ++axis) {
    const int64_t last = place.index[axis] + (axis == N - 1 ? Lanes - 1 : 0);
    if (place.index[axis] < 0 || last >= place.extent[axis]) out_of_bounds(access);
  }
  for (unsigned lane = 0; lane < Lanes; ++lane) {
    if (U == kWrite) written[flat + lane] = true;
    if (U != kWrite && !written[flat + lane]) unwritten(access);
  }
  return base[flat];
}

}  // namespace tile
