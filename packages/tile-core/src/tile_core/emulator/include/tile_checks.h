// Checked accesses: what a kernel's accesses of memory are printed as when checks are on. Bounds are checked here, axis by
// axis; who wrote and read what is kept by `source/checks.cpp`.
#pragma once

#include "tile_async.h"
#include "tile_emulator.h"

namespace tile {

// An ordered atomic update passes on what its thread has seen, to the thread of the next one of the same element. What an
// operation begins to write has no value until it ends; another one continues with it. An atomic store replaces: nothing
// has to be there.
enum class Use : unsigned char {
  kRead, kWrite, kAtomic, kReplace, kOrdered, kOrderedReplace, kBegin, kContinue, kLent
};
constexpr Use kRead = Use::kRead, kWrite = Use::kWrite, kAtomic = Use::kAtomic, kReplace = Use::kReplace,
              kOrdered = Use::kOrdered, kOrderedReplace = Use::kOrderedReplace, kBegin = Use::kBegin,
              kContinue = Use::kContinue, kLent = Use::kLent;

// Of an element of an array of one thread.
enum class Written : unsigned char { kNever, kDone, kUnderWay };
// The elements that an operation has begun to write: `kBegin` leaves them for the operation that follows.
struct Begun {
  Written* written = nullptr;
  unsigned count = 0;

  void mark(Written value) const {
    if (written != nullptr) memset(written, static_cast<int>(value), count);
  }
};
extern Begun begun;

// Elements of an array of one thread that an operation reads until it ends: `kLent` leaves them for the one that follows.
// Kept by address: the array may be gone, and another in its place, before the operation ends.
struct Lent {
  const unsigned char* first = nullptr;
  unsigned bytes = 0;
  int site = 0;
};
extern Lent lent;
extern unsigned lent_count;  // of all threads
void lend(const Lent& given);
void give_back(const Lent& given);
void end_lending(const void* first, unsigned bytes);

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
  const char* by = nullptr;  // what does it in place of the thread
};

// An access in the shadow of memory: when, by whom, and where in the source.
struct Mark {
  uint32_t clock = 0;
  uint16_t thread = 0;
  uint16_t site = 0;
};
// What is remembered of a piece of memory. Two readers are enough: of any two, one is not the writer that comes later.
struct Cell {
  Mark write, reads[2];
};
// What the running thread must know to see that a read of shared memory is one that changes nothing in the shadow.
struct Running {
  Cell* shared = nullptr;
  unsigned granule = 0;  // bytes of a cell; 0 where a comparison with `all` does not tell the order
  uint32_t block_start = 0, clock = 0, all = 0;
  uint16_t thread = 0;
};
extern Running running;
// Where memory was accessed last, by any thread: what is computed now comes from there.
extern int latest;

// What the call allocates holds nothing from here on.
void begin_call();
[[noreturn]] void out_of_bounds(const Access& access);
[[noreturn]] void unwritten(const Access& access);
[[noreturn]] void under_way(const Access& access);
// A write of `bytes` bytes: a fault where an operation under way reads one of them.
void expect_not_lent(const void* first, unsigned bytes, const Access& access);
[[noreturn]] void misaligned(const Access& access, unsigned bytes);
// An access of memory that threads share, of `bytes` bytes.
void touch(const volatile void* address, unsigned bytes, const Access& access);

#define TILE_INLINE inline __attribute__((always_inline))

template <unsigned Lanes, int N>
TILE_INLINE bool is_outside(const Place<N>& place) {
  bool outside = false;
  for (int axis = 0; axis < N; ++axis) {
    const uint64_t last = static_cast<uint64_t>(place.index[axis]) + (axis == N - 1 ? Lanes - 1 : 0);
    outside |= last >= static_cast<uint64_t>(place.extent[axis]) || place.index[axis] < 0;
  }
  return outside;
}

inline bool is_known_read(const volatile void* address, unsigned bytes) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(tile_shared);
  if (from >= kSharedBytes || bytes != running.granule) return false;
  const Cell& cell = running.shared[from / running.granule];
  const Mark &write = cell.write, *reads = cell.reads;
  if (write.thread >= kMaxThreads) return false;  // a copy
  if (write.clock < running.block_start || (write.clock >= running.all && write.thread != running.thread)) return false;
  // Its own read is noted, or two others are that are as much in the way of a later write.
  return (reads[0].thread == running.thread && reads[0].clock == running.clock) ||
         (reads[1].thread == running.thread && reads[1].clock == running.clock) ||
         (reads[0].clock >= running.all && reads[1].clock >= running.all);
}

// The element at `flat` of memory that threads share, and the `Lanes - 1` after it.
template <Use U, unsigned Lanes = 1, typename T, int N>
TILE_INLINE T& memory(T* base, int64_t flat, int site, const Place<N>& place) {
  latest = site;
  T* const address = base + flat;
  constexpr unsigned bytes = Lanes * sizeof(T);
  const bool outside = is_outside<Lanes>(place);
  if (U == kRead && Lanes == 1 && !outside && is_known_read(address, bytes)) return *address;
  const Access access{U, site, Lanes, N, place.index, place.extent};
  if (outside) out_of_bounds(access);
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) misaligned(access, bytes);
  touch(address, bytes, access);
  return *address;
}

// The element at `flat`, for an operation that says itself what it accesses there.
template <typename T, int N>
inline Spot spot(T* base, int64_t flat, int site, const Place<N>& place) {
  static_assert(N <= kMostAxes, "a buffer has more axes than reports can name");
  if (is_outside<1>(place)) out_of_bounds(Access{kAtomic, site, 1, N, place.index, place.extent});
  Spot found(base + flat);
  found.site = site, found.rank = N;
  memcpy(found.index, place.index, sizeof(place.index));
  memcpy(found.extent, place.extent, sizeof(place.extent));
  return found;
}

// The element at `flat` of an array of this thread, of whose elements `written` says which have a value.
template <Use U, unsigned Lanes = 1, typename T, int N>
TILE_INLINE T& local(T* base, Written* written, int64_t flat, int site, const Place<N>& place) {
  latest = site;
  const Access access{U, site, Lanes, N, place.index, place.extent};
  if (is_outside<Lanes>(place)) out_of_bounds(access);
  for (unsigned lane = 0; lane < Lanes; ++lane) {
    Written& own = written[flat + lane];
    if (U != kWrite && U != kReplace && U != kOrderedReplace && U != kBegin && own == Written::kNever) unwritten(access);
    if (U != kBegin && U != kContinue && own == Written::kUnderWay) under_way(access);
    if (U == kWrite || U == kReplace || U == kOrderedReplace) own = Written::kDone;
  }
  if ((U == kWrite || U == kBegin) && lent_count != 0) expect_not_lent(base + flat, Lanes * sizeof(T), access);
  if (U == kBegin) begun = Begun{written + flat, Lanes};
  if (U == kLent) lent = Lent{reinterpret_cast<const unsigned char*>(base + flat), Lanes * sizeof(T), site};
  return base[flat];
}

// A variable or array of this thread begins: what lay in its place is gone.
template <typename T>
TILE_INLINE void declared(const T& array) {
  if (lent_count != 0) end_lending(&array, sizeof(array));
}

}  // namespace tile
