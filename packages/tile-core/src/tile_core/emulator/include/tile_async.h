// Copies that go on beside the threads, and the barriers with phases to which they are signalled: what a vendor's header maps
// its asynchronous instructions onto.
//
// A copy is described by runs of bytes, then issued. Its bytes count as there at once, and land as late as anything allows:
// where a wait for it passes. Until then what it writes is poison. So whatever does not wait, waits for another phase, or
// writes again too early, gets wrong values; with checks it is told where.
#pragma once

#include "tile_emulator.h"

namespace tile {

// An address that an operation gets, and what the author calls it.
constexpr int kMostAxes = 6;
struct Spot {
  unsigned char* address = nullptr;
  int site = kNoSite;
  int rank = 0;
  int64_t index[kMostAxes] = {}, extent[kMostAxes] = {};

  Spot() = default;
  Spot(const void* pointer) : address(static_cast<unsigned char*>(const_cast<void*>(pointer))) {}
};

// A barrier in shared memory. A phase ends when `count` arrivals and all expected bytes are there; the next begins at once.
void phase_init(const Spot& barrier, unsigned count);
// The barriers that this thread initialised are known to copies.
void phase_init_fence();
void phase_arrive(const Spot& barrier);
// At the same barrier of a block of the cluster. What the thread has done is not passed on to the threads there.
void phase_arrive_at(const Spot& barrier, unsigned rank);
// Copies bring `bytes` more in this phase.
void phase_expect(const Spot& barrier, unsigned bytes);
// At the same barrier of a block of the cluster.
void phase_expect_at(const Spot& barrier, unsigned bytes, unsigned rank);
// Waits until the phase of this parity, the running one or the one before, is over.
void phase_wait(const Spot& barrier, unsigned parity);
// An arrival when this thread's copies (`kOfThread`) so far have landed.
void phase_arrive_after_copies(const Spot& barrier);

// kToShared: by an engine, signalled to a barrier or in groups of the issuing thread. kFromShared: by an engine, in groups
// of the issuing thread. kOfThread: to shared memory, in groups of the issuing thread.
enum class CopyKind : unsigned char { kToShared, kFromShared, kOfThread };
using Combine = void (*)(unsigned char* to, const unsigned char* from, unsigned bytes);

// Begins the description of a copy; `place` is its address in shared memory. `combine` takes the place of an assignment.
void copy_begin(CopyKind kind, const Spot& place, Combine combine = nullptr);
// Zeros come from nowhere.
void copy_run(void* to, const void* from, unsigned bytes);
// From shared memory of this block, as it is now, to the same block or another one.
void copy_run_from_shared(void* to, const void* from, unsigned bytes);
void copy_issue();
void copy_issue(const Spot& barrier);
// To the same place of each block of the cluster whose bit is in `mask`, signalled to the barrier there.
void copy_issue_to(const Spot& barrier, unsigned mask);
// To this block, signalled at the barrier of block `rank` of the cluster, where a wait lets it land.
void copy_issue_at(const Spot& barrier, unsigned rank);
void copy_commit(CopyKind kind);
// Waits until all but the youngest `pending` groups are done; with `read`, done with reading.
void copy_wait(CopyKind kind, unsigned pending, bool read);
// Engines see what this thread has written, or has seen of other threads.
void proxy_fence();

// An instruction of `unit` that reads shared memory beside the threads. Those of a unit end in order. `begin_reads` gives the
// time of this one; every thread for which it reads says what, and sees its end when it has waited for it.
uint32_t begin_reads();
void read_beside(unsigned unit, uint32_t time, const void* address, unsigned bytes);
void end_reads(unsigned unit, uint32_t time);
// An arrival when an instruction of `unit` that was begun at `time` ends: where a wait passes, `end(data)` is called.
void phase_arrive_after(const Spot& barrier, unsigned unit, uint32_t time, void (*end)(void*), void* data);

// For memory of a vendor's own, with checks: how often this thread has met others, and whether it knows that another thread
// has passed such a point, or that an instruction of `unit` begun at `time` has ended.
bool is_checked();
uint32_t clock_of_thread();
bool has_seen(unsigned thread, uint32_t clock);
bool has_seen_end(unsigned unit, uint32_t time);

// Refuses what an operation is asked for.
[[noreturn]] void refuse_copy(const Spot& place, const char* why);
inline size_t shared_offset(const void* address) {
  return static_cast<size_t>(static_cast<const unsigned char*>(address) - tile_shared);
}

}  // namespace tile
