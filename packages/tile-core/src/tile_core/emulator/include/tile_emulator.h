// Runs printed SIMT kernels on the host: what a vendor's header maps its names (threadIdx, __syncthreads, …) onto.
//
// A block's threads are fibres of one operating-system thread. Each runs until it waits (for a barrier, for its warp) or
// ends, so a run is deterministic, a plain read-modify-write is atomic, and a wait that cannot end is seen.
//
// Everything that takes long to compile is in `source/`, which is compiled once; this header is read with every kernel.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tile_small_float.h"

namespace tile {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

constexpr size_t kSharedBytes = 256 * 1024;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxCluster = 16;
constexpr unsigned kMaxWarp = 64;
constexpr unsigned kNamedBarriers = 32;
constexpr unsigned char kPoison = 0xa5;
constexpr int kNoSite = -1;

// A meeting of threads: opens when `expected` have arrived. What threads can wait for is made of these: a further kind of
// barrier is a further meeting, and the report of a deadlock and the order of memory accesses follow by themselves.
struct Meeting {
  const char* name = "a barrier";
  unsigned expected = 0;
  unsigned arrived = 0;
  bool orders_memory = true;
  uint64_t members[kMaxThreads / 64] = {};
};
// This thread arrives; with `wait` it goes on when the meeting opens.
void meet(Meeting& meeting, bool wait = true);
// This thread stops until another one wakes those that wait for `meeting`.
void sleep_for(const Meeting& meeting);
void wake(const Meeting& meeting);

struct Fibre {
  void* stack_pointer = nullptr;
  Dim3 index{0, 0, 0};
  unsigned linear = 0;
  bool done = false;
  const Meeting* waits_for = nullptr;
  int site = kNoSite;
  uint64_t cluster_phase = 0;    // of the barrier of the cluster at which this thread has arrived; 0 for none
  const void* caller = nullptr;  // the code that asked which lanes are here, and the answer
  uint64_t beside = 0;
};

// A line of the author's source, and the buffer that is accessed there.
struct Site {
  const char* buffer;
  const char* place;
  bool needs_write = false;  // of global memory that holds nothing before the kernel writes it
};

struct Launch {
  Dim3 grid, block;
  unsigned warp_size = 32;
  size_t shared_bytes = 0, stack_bytes = 0;
  const Site* sites = nullptr;
  unsigned checked = 0;  // 0, or the bytes that one cell of the shadow stands for
  void (*kernel)(void* const* cells) = nullptr;
  void* const* cells = nullptr;
  Dim3 cluster{};
};

// The running block. One at a time; clusters of blocks run in turn, x fastest.
struct Block {
  Dim3 grid, block, index;
  unsigned warp_size = 32;
  uint64_t serial = 0;  // counts the blocks that have run: state of an earlier one is stale
  Fibre* self = nullptr;
  uint64_t slots[kMaxThreads];  // what lanes leave for each other

  unsigned lane() const { return self->linear % warp_size; }
  unsigned first_of_warp() const { return self->linear - lane(); }
};
extern Block block;

// Runs a launch. 0, or 1 with `failure` set.
int run(const Launch& launch);

// All threads of the block that have not ended meet.
void barrier();
// All of them have come to the end of a part of the kernel, such as a function that they run together. A barrier within a
// part is not one with its end.
void end_part();
// `count` threads meet at barrier `number`; with `wait` unset, the thread is counted and goes on.
void named_barrier(unsigned number, unsigned count, bool wait = true);
// This thread arrives at the barrier of the cluster; `releases` says that what it has written is seen by those who wait.
void cluster_arrive(bool releases);
// Waits for every thread of the cluster that has not ended to arrive, as this one has.
void cluster_wait();
// The lanes of `mask` that have not ended meet; `orders_memory` says that accesses before are seen by the others after.
void meet_warp(uint64_t mask, bool orders_memory);
// The lanes of this warp that have not ended.
uint64_t live_lanes();
// The lanes of this warp that run this call together: those that come here before they wait for anything else.
uint64_t converged_lanes();
// Whether a thread of this block has not ended.
bool is_live(unsigned thread);
// Where the author's source is: kept for reports of what this thread waits for.
inline void here(int site) { block.self->site = site; }

// Why a run ended early. `site` is a position in `tile_sites`.
enum class Fault : int {
  kNone,
  kLimit,
  kDeadlock,
  kBarrier,
  kBounds,
  kUnwritten,
  kRace,
  kAlignment,
  kInstruction,
  kCopy,
  kFence,
  kDescriptor,
  kAssertion,
  kUndefined
};
struct Failure {
  Fault fault = Fault::kNone;
  int site = kNoSite;
  char text[2048] = "";
};
extern Failure failure;
// Ends the run: "thread … of block … `what`", at the line of this thread.
[[noreturn]] void stop(Fault fault, const char* what);
// Called by the last thread of every block before it ends, if it is set.
extern void (*at_end_of_block)();
// The next cluster of the launch that has not begun does not begin; `first` is its first block. Blocks of a cluster whose
// claim was denied may not claim again.
enum class Claim { kGranted, kDenied, kAgain };
Claim claim_cluster(Dim3& first);
unsigned cluster_size();
// The number of the running block in its cluster, x fastest.
unsigned cluster_rank();
// An assertion of the author does not hold in this thread.
[[noreturn]] void assertion_failed(const char* text, int number);

// Every lane of `mask` leaves a value; then each computes its result from what all left. `result(values)` gets a function
// from lane to value. The base of everything that lanes do together.
template <typename T, typename Result>
auto together(uint64_t mask, T value, Result result) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  const unsigned first = block.first_of_warp();
  memcpy(&block.slots[block.self->linear], &value, sizeof(T));
  meet_warp(mask, false);
  auto found = result([first](unsigned lane) {
    T other;
    memcpy(&other, &block.slots[first + lane], sizeof(T));
    return other;
  });
  meet_warp(mask, false);
  return found;
}

// The value of lane `source(lane)`; the own one where that lane does not take part.
template <typename T, typename Source>
T exchange(uint64_t mask, T value, Source source) {
  const unsigned from = source(block.lane());
  return together(mask, value, [=](auto values) {
    const bool is_there = from < block.warp_size && ((mask & live_lanes()) >> from & 1);
    return is_there ? values(from) : value;
  });
}
// The lanes of `mask` on which `predicate` holds.
inline uint64_t ballot(uint64_t mask, bool predicate) {
  return together(mask, predicate, [=](auto values) {
    const uint64_t present = mask & live_lanes();
    uint64_t found = 0;
    for (unsigned lane = 0; lane < block.warp_size; ++lane)
      if (present >> lane & 1) found |= uint64_t{values(lane)} << lane;
    return found;
  });
}
// A barrier of the block whose value is the number of threads on which `predicate` holds.
inline unsigned count_threads(bool predicate) {
  block.slots[block.self->linear] = predicate;
  barrier();
  unsigned count = 0;
  for (unsigned thread = 0; thread < block.block.count(); ++thread)
    count += is_live(thread) && block.slots[thread] != 0;
  barrier();
  return count;
}
// The lanes of `mask` whose value has this lane's bits.
template <typename T>
uint64_t match_any(uint64_t mask, T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return together(mask, bits, [=](auto values) {
    const uint64_t present = mask & live_lanes();
    uint64_t found = 0;
    for (unsigned lane = 0; lane < block.warp_size; ++lane)
      if (present >> lane & 1) found |= uint64_t{values(lane) == bits} << lane;
    return found;
  });
}
// A sum as devices compute it: integers wrap.
template <typename T>
T wrapping_sum(T a, T b) {
  return a + b;
}
inline int wrapping_sum(int a, int b) { return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); }
inline long long wrapping_sum(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}
// `combine` over the lanes of `mask`, in the order of lanes.
template <typename T, typename Combine>
T reduce(uint64_t mask, T value, Combine combine) {
  return together(mask, value, [=](auto values) {
    const uint64_t present = mask & live_lanes();
    bool begun = false;
    T total{};
    for (unsigned lane = 0; lane < block.warp_size; ++lane) {
      if (!(present >> lane & 1)) continue;
      total = begun ? combine(total, values(lane)) : values(lane);
      begun = true;
    }
    return total;
  });
}

// Reading the arguments of a launch: one cell of 16 bytes each, a tag and 8 bytes that begin with the value, or are the
// address of one that is larger.
template <size_t N, typename First, typename... Rest>
struct Nth {
  using Type = typename Nth<N - 1, Rest...>::Type;
};
template <typename First, typename... Rest>
struct Nth<0, First, Rest...> {
  using Type = First;
};
template <size_t N, typename... Parameters>
auto argument(void (*)(Parameters...)) -> typename Nth<N, Parameters...>::Type;
template <typename T>
struct Passed {
  using Type = T;
};
template <typename T>
struct Passed<const T&> {
  using Type = T;
};
template <typename Parameter>
auto cell(void* const* cells, int position) -> typename Passed<Parameter>::Type {
  using T = typename Passed<Parameter>::Type;
  T value;
  const void* const* const at = &cells[2 * position + 1];
  memcpy(&value, sizeof(T) > sizeof(void*) ? *at : static_cast<const void*>(at), sizeof(T));
  return value;
}

}  // namespace tile

// The shared memory of the running block.
extern __attribute__((aligned(1024))) unsigned char tile_shared[tile::kSharedBytes];
