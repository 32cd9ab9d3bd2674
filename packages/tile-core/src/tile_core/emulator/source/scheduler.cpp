// The scheduler of a block's threads, and what they wait for.
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "checks.h"
#include "context.h"
#include "tile_emulator.h"

__attribute__((aligned(1024))) unsigned char tile_shared[tile::kSharedBytes];

namespace tile {

Block block;
Failure failure;
void (*at_end_of_block)() = nullptr;

namespace {

struct WarpMeeting {
  uint64_t mask = 0;
  Meeting meeting;
};

// The stacks of all fibres, each above a page that faults when a stack overflows.
class Stacks {
 public:
  bool reserve(unsigned count, size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes = (bytes + page - 1) / page * page + page;
    if (memory_ != nullptr && bytes <= each_ && count <= count_) return true;
    release();
    void* found = mmap(nullptr, bytes * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory_ = found == MAP_FAILED ? nullptr : static_cast<char*>(found);
    if (memory_ == nullptr) return false;
    each_ = bytes, count_ = count, page_ = page;
    for (unsigned at = 0; at < count; ++at) mprotect(memory_ + at * bytes, page, PROT_NONE);
    return true;
  }
  // A process may hold thousands of kernels, and every guard page is a mapping of its own, of which it has 65530.
  void release() {
    if (memory_ != nullptr) munmap(memory_, each_ * count_);
    memory_ = nullptr;
  }
  char* stack(unsigned at) { return memory_ + at * each_ + page_; }
  size_t bytes() const { return each_ - page_; }

 private:
  char* memory_ = nullptr;
  size_t each_ = 0, page_ = 0;
  unsigned count_ = 0;
};

Stacks stacks;
Launch launch;
Meeting whole_block;
Meeting named[kNamedBarriers];
Meeting converging;
Meeting end_of_part;  // of launches without clusters
// On the heap: as statics their initial values would be a quarter megabyte of every kernel's library.
Fibre* fibres = new Fibre[kMaxThreads];
WarpMeeting* warps = new WarpMeeting[kMaxThreads];
void* scheduler = nullptr;
unsigned threads = 0, alive = 0;
std::mutex in_use;

// A block of the running cluster while another one runs: everything above that is a block's own.
struct Resident {
  Block block;
  Meeting whole_block, named[kNamedBarriers], converging;
  Fibre* fibres = nullptr;
  WarpMeeting* warps = nullptr;
  unsigned alive = 0;
  bool begun = false;
  bool met = false;  // the cluster has met since this block ran
  std::vector<unsigned char> shared;
};
std::vector<Resident> residents;
unsigned blocks = 1, current = 0;

// The barrier of the cluster: it opens when every thread that has not ended has arrived.
struct {
  Meeting meeting;
  uint64_t phase = 1;
  unsigned arrived = 0, alive = 0;
  bool orders_memory = true;
} cluster;

bool is_member(const Meeting& meeting, unsigned thread) { return meeting.members[thread / 64] >> thread % 64 & 1; }

void give_way() {
  settle_access();
  switch_context(&block.self->stack_pointer, scheduler);
}

// The waiting threads, those with the same place together: "threads 0-31 wait at a barrier (k.py:7)".
void list_waiting(Text& text) {
  for (unsigned first = 0; first < threads;) {
    const Fibre& head = fibres[first];
    unsigned last = first;
    while (last + 1 < threads && fibres[last + 1].waits_for == head.waits_for && fibres[last + 1].site == head.site &&
           fibres[last + 1].done == head.done)
      ++last;
    text.add(first == 0 ? "" : "; ").add(first == last ? "thread %u" : "threads %u to %u", first, last);
    const bool one = first == last;
    if (head.done) {
      text.add(one ? " has ended" : " have ended");
    } else if (head.waits_for == nullptr) {
      text.add(one ? " runs" : " run");
    } else {
      text.add(one ? " waits for %s" : " wait for %s", head.waits_for->name).add_place(launch.sites, head.site);
    }
    first = last + 1;
  }
}

// Threads of one meeting that came from different lines are at different barriers of the source.
void check_one_place(const Meeting& meeting) {
  for (unsigned thread = 0; thread < threads; ++thread) {
    if (!is_member(meeting, thread) || fibres[thread].site == block.self->site) continue;
    Text text;
    text.add("thread %u", block.self->linear).add_place(launch.sites, block.self->site);
    text.add(" and thread %u", thread).add_place(launch.sites, fibres[thread].site);
    text.add(" of block (%u, %u, %u) are at different barriers", block.index.x, block.index.y, block.index.z);
    fail(Fault::kBarrier, block.self->site, text);
  }
}

void open(Meeting& meeting) {
  if (launch.checked && &meeting == &whole_block) check_one_place(meeting);
  for (unsigned thread = 0; thread < threads; ++thread)
    if (is_member(meeting, thread) && fibres[thread].waits_for == &meeting) fibres[thread].waits_for = nullptr;
  if (launch.checked && meeting.orders_memory) {
    note_meeting(meeting, threads, alive);
    resume_access();
  }
  meeting.arrived = 0;
  memset(meeting.members, 0, sizeof(meeting.members));
}

// Threads wait for a barrier to which the others cannot come.
[[noreturn]] void unreachable_barrier() {
  Text text;
  text.add("block (%u, %u, %u) has a barrier that not every thread reaches: ", block.index.x, block.index.y,
           block.index.z);
  list_waiting(text);
  int site = block.self->site;
  for (unsigned thread = 0; thread < threads; ++thread)
    if (fibres[thread].waits_for == &whole_block) site = fibres[thread].site;
  fail(Fault::kBarrier, site, text);
}

void reopen_without() {
  whole_block.expected = alive;
  if (whole_block.arrived != 0) {
    if (launch.checked) unreachable_barrier();
    if (whole_block.arrived == alive) open(whole_block);
  }
  const unsigned first = block.first_of_warp();
  for (unsigned at = first; at < first + block.warp_size && at < threads; ++at) {
    WarpMeeting& warp = warps[at];
    warp.meeting.expected = static_cast<unsigned>(__builtin_popcountll(warp.mask & live_lanes()));
    if (warp.meeting.arrived != 0 && warp.meeting.arrived >= warp.meeting.expected) open(warp.meeting);
  }
}

// All of the cluster has arrived.
void open_cluster() {
  cluster.arrived = 0;
  ++cluster.phase;
  for (unsigned rank = 0; rank < blocks; ++rank) {
    Fibre* const own = rank == current ? fibres : residents[rank].fibres;
    for (unsigned t = 0; t < threads; ++t)
      if (own[t].waits_for == &cluster.meeting) own[t].waits_for = nullptr;
    if (rank != current) residents[rank].met = cluster.orders_memory;
  }
  if (launch.checked && cluster.orders_memory) {
    note_cluster(threads, true);
    resume_access();
  }
  cluster.orders_memory = true;
}

void enter() {
  launch.kernel(launch.cells);
  settle_access();
  if (alive == 1 && at_end_of_block != nullptr) at_end_of_block();
  block.self->done = true;
  --alive;
  --cluster.alive;
  reopen_without();
  if (cluster.arrived != 0 && cluster.arrived >= cluster.alive) open_cluster();
  switch_context(&block.self->stack_pointer, scheduler);
  __builtin_unreachable();
}

// Nobody else can come: those who asked which lanes run a call together are answered, each for its own call.
bool answer_converged() {
  bool asked = false;
  for (unsigned t = 0; t < threads; ++t) {
    Fibre& fibre = fibres[t];
    if (fibre.waits_for != &converging) continue;
    asked = true;
    fibre.beside = 0;
    const unsigned first = t - t % block.warp_size;
    for (unsigned lane = 0; lane < block.warp_size && first + lane < threads; ++lane) {
      const Fibre& other = fibres[first + lane];
      if (other.waits_for == &converging && other.caller == fibre.caller) fibre.beside |= uint64_t{1} << lane;
    }
  }
  for (unsigned t = 0; t < threads; ++t)
    if (fibres[t].waits_for == &converging) fibres[t].waits_for = nullptr;
  return asked;
}

void prepare(Dim3 index) {
  static uint64_t serial = 0;
  block.index = index;
  block.serial = ++serial;
  alive = threads;
  cluster.alive += threads;
  whole_block = end_of_part = Meeting{};
  whole_block.expected = threads;
  for (Meeting& meeting : named) meeting = Meeting{};
  memset(tile_shared, kPoison, launch.shared_bytes);
  for (unsigned t = 0; t < threads; ++t) {
    warps[t] = WarpMeeting{};
    Fibre& fibre = fibres[t];
    fibre = Fibre{};
    fibre.linear = t;
    fibre.index = {t % block.block.x, t / block.block.x % block.block.y, t / (block.block.x * block.block.y)};
    fibre.stack_pointer = new_context(stacks.stack(current * threads + t), stacks.bytes(), enter);
  }
  if (launch.checked) begin_block(launch, threads, current == 0);
  begin_copies();
}

// Runs threads of this block until all of them wait or have ended. Whether any ran.
bool run_threads() {
  bool ran = false;
  for (bool moved = true; moved; ran |= moved) {
    moved = false;
    for (unsigned t = 0; t < threads; ++t) {
      Fibre& fibre = fibres[t];
      if (fibre.done || fibre.waits_for != nullptr) continue;
      block.self = &fibre;
      if (launch.checked) resume_access();
      switch_context(&scheduler, fibre.stack_pointer);
      if (failure.fault != Fault::kNone) return true;
      moved = true;
    }
    if (!moved) moved = answer_converged();
  }
  return ran;
}

int report_deadlock() {
  name_phases();
  Text text;
  text.add("deadlock in block (%u, %u, %u): ", block.index.x, block.index.y, block.index.z);
  list_waiting(text);
  int site = kNoSite;
  for (unsigned t = threads; t-- > 0;)
    if (!fibres[t].done) site = fibres[t].site;
  record(Fault::kDeadlock, site, text);
  return 1;
}

// Another block of the cluster becomes the running one.
void change_to(unsigned rank) {
  if (rank == current) return;
  Resident& left = residents[current];
  left.block = block, left.whole_block = whole_block, left.converging = converging, left.alive = alive;
  memcpy(left.named, named, sizeof(named));
  left.shared.assign(tile_shared, tile_shared + launch.shared_bytes);
  left.begun = true;
  std::swap(left.fibres, fibres), std::swap(left.warps, warps);
  if (launch.checked) change_block(current, rank);
  current = rank;
  Resident& next = residents[rank];
  if (next.fibres == nullptr) next.fibres = new Fibre[kMaxThreads], next.warps = new WarpMeeting[kMaxThreads];
  std::swap(next.fibres, fibres), std::swap(next.warps, warps);
  if (!next.begun) return;
  block = next.block, whole_block = next.whole_block, converging = next.converging, alive = next.alive;
  memcpy(named, next.named, sizeof(named));
  memcpy(tile_shared, next.shared.data(), next.shared.size());
  if (launch.checked && next.met) note_cluster(threads, false);
  next.met = false;
}

// The clusters of a launch begin in order, x fastest; one that a running block claims does not begin.
uint64_t next_cluster = 0, denied = 0;

bool take_cluster(Dim3& first) {
  const Dim3 sizes = launch.cluster;
  const uint64_t across = block.grid.x / sizes.x, down = block.grid.y / sizes.y, deep = block.grid.z / sizes.z;
  if (next_cluster >= across * down * deep) return false;
  first.x = static_cast<unsigned>(next_cluster % across) * sizes.x;
  first.y = static_cast<unsigned>(next_cluster / across % down) * sizes.y;
  first.z = static_cast<unsigned>(next_cluster / (across * down)) * sizes.z;
  ++next_cluster;
  return true;
}

// The blocks of one cluster run in turn, each until its threads wait.
int run_cluster(Dim3 first) {
  const Dim3 sizes = launch.cluster;
  change_to(0);
  cluster.alive = cluster.arrived = 0;
  for (Resident& resident : residents) resident.begun = resident.met = false;
  for (unsigned rank = 0; rank < blocks; ++rank) {
    change_to(rank);
    prepare({first.x + rank % sizes.x, first.y + rank / sizes.x % sizes.y, first.z + rank / (sizes.x * sizes.y)});
  }
  while (cluster.alive != 0) {
    bool moved = false;
    for (unsigned rank = 0; rank < blocks; ++rank) {
      change_to(rank);
      moved |= run_threads();
      if (failure.fault != Fault::kNone) return 1;
    }
    if (moved) continue;
    for (unsigned rank = 0; alive == 0; ++rank) change_to(rank);
    return report_deadlock();
  }
  change_to(0);
  end_copies();
  return failure.fault == Fault::kNone ? 0 : 1;
}

int refuse(const char* what) {
  Text text;
  text.add("%s", what);
  record(Fault::kLimit, kNoSite, text);
  return 1;
}

// What the kernel printed is out before the host goes on.
int ended(int status) {
  change_to(0);
  fflush(stdout);
  return status;
}

}  // namespace

Text& Text::add(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf(text_ + length_, sizeof(text_) - length_, format, arguments);
  va_end(arguments);
  if (written > 0) length_ += static_cast<size_t>(written);
  if (length_ >= sizeof(text_)) length_ = sizeof(text_) - 1;
  return *this;
}

Text& Text::add_place(const Site* sites, int site) {
  return site == kNoSite || sites == nullptr ? *this : add(" (%s)", sites[site].place);
}

void record(Fault fault, int site, const Text& text) {
  failure.fault = fault;
  failure.site = site;
  snprintf(failure.text, sizeof(failure.text), "%s", text.text());
}

void fail(Fault fault, int site, const Text& text) {
  record(fault, site, text);
  switch_context(&block.self->stack_pointer, scheduler);
  __builtin_unreachable();
}

void stop(Fault fault, const char* what) {
  Text text;
  text.add("thread %u of block (%u, %u, %u) %s", block.self->linear, block.index.x, block.index.y, block.index.z, what);
  fail(fault, block.self->site, text);
}

void assertion_failed(const char* text, int number) {
  const Dim3 at = block.self->index;
  Text message;
  message.add("%s, in thread (%u, %u, %u) of block (%u, %u, %u)", text, at.x, at.y, at.z, block.index.x,
              block.index.y, block.index.z);
  if (number != 0) message.add(" [assertion %d]", number);
  fail(Fault::kAssertion, kNoSite, message);
}

Claim claim_cluster(Dim3& first) {
  const uint64_t serial = block.serial - current;  // of the cluster's first block
  if (denied == serial) return Claim::kAgain;
  if (take_cluster(first)) return Claim::kGranted;
  denied = serial;
  return Claim::kDenied;
}

unsigned cluster_size() { return blocks; }
unsigned cluster_rank() { return current; }

const Fibre& fibre_of(unsigned thread) { return fibres[thread]; }

const Launch& running_launch() { return launch; }

int run(const Launch& asked) {
  const std::lock_guard<std::mutex> one_at_a_time(in_use);
  launch = asked;
  failure = Failure{};
  block.grid = launch.grid, block.block = launch.block, block.warp_size = launch.warp_size;
  threads = block.block.count();
  if (launch.shared_bytes > kSharedBytes) return refuse("the kernel asks for more shared memory than the emulator has");
  if (threads > kMaxThreads) return refuse("a block has more threads than the emulator runs");
  const Dim3 sizes = launch.cluster;
  blocks = sizes.count();
  if (blocks > kMaxCluster) return refuse("a cluster has more blocks than the emulator runs");
  if (block.grid.x % sizes.x || block.grid.y % sizes.y || block.grid.z % sizes.z)
    return refuse("the grid is no multiple of the cluster");
  const struct Release {
    ~Release() { stacks.release(); }
  } at_the_end;
  if (!stacks.reserve(blocks * threads, launch.stack_bytes))
    return refuse("there is not enough memory for the threads' stacks");
  residents.resize(blocks > residents.size() ? blocks : residents.size());
  cluster.meeting.name = "the barrier of the cluster";
  if (launch.checked) begin_launch(launch);
  next_cluster = 0;
  denied = 0;
  Dim3 first;
  while (take_cluster(first))
    if (run_cluster(first)) return ended(1);
  return ended(0);
}

void meet(Meeting& meeting, bool wait) {
  meeting.members[block.self->linear / 64] |= uint64_t{1} << block.self->linear % 64;
  if (++meeting.arrived >= meeting.expected) {
    settle_access();
    open(meeting);
    return;
  }
  if (wait) sleep_for(meeting);
}

void sleep_for(const Meeting& meeting) {
  block.self->waits_for = &meeting;
  while (block.self->waits_for != nullptr) give_way();
}

void wake(const Meeting& meeting) {
  for (unsigned rank = 0; rank < blocks; ++rank) {
    Fibre* const own = rank == current ? fibres : residents[rank].fibres;
    for (unsigned thread = 0; thread < threads; ++thread)
      if (own[thread].waits_for == &meeting) own[thread].waits_for = nullptr;
  }
}

unsigned block_rank() { return current; }

unsigned blocks_of_cluster() { return blocks; }

unsigned char* shared_memory_of(unsigned rank) {
  return rank == current ? tile_shared : residents[rank].shared.data();
}

void barrier() {
  whole_block.expected = alive;
  if (launch.checked && whole_block.arrived + 1 + end_of_part.arrived == alive && end_of_part.arrived != 0)
    unreachable_barrier();
  meet(whole_block);
}

void end_part() {
  end_of_part.name = "the end of what all threads run";
  end_of_part.expected = alive;
  if (launch.checked && end_of_part.arrived + 1 + whole_block.arrived == alive && whole_block.arrived != 0)
    unreachable_barrier();
  meet(end_of_part);
}

void cluster_arrive(bool releases) {
  if (block.self->cluster_phase != 0) stop(Fault::kBarrier, "arrives twice at the barrier of its cluster, without a wait");
  block.self->cluster_phase = cluster.phase;
  cluster.orders_memory &= releases;
  settle_access();
  if (++cluster.arrived >= cluster.alive) open_cluster();
}

void cluster_wait() {
  const uint64_t phase = block.self->cluster_phase;
  if (phase == 0) stop(Fault::kBarrier, "waits at the barrier of its cluster without having arrived");
  if (cluster.phase == phase) sleep_for(cluster.meeting);
  block.self->cluster_phase = 0;
}

void named_barrier(unsigned number, unsigned count, bool wait) {
  Meeting& meeting = named[number % kNamedBarriers];
  meeting.name = "a named barrier";
  meeting.expected = count;
  meet(meeting, wait);
}

__attribute__((noinline)) uint64_t converged_lanes() {
  block.self->caller = __builtin_return_address(0);
  block.self->waits_for = &converging;
  while (block.self->waits_for != nullptr) give_way();
  return block.self->beside;
}

bool is_live(unsigned thread) { return !fibres[thread].done; }

uint64_t live_lanes() {
  const unsigned first = block.first_of_warp();
  uint64_t found = 0;
  for (unsigned lane = 0; lane < block.warp_size && first + lane < threads; ++lane)
    if (!fibres[first + lane].done) found |= uint64_t{1} << lane;
  return found;
}

void meet_warp(uint64_t mask, bool orders_memory) {
  if (!(mask >> block.lane() & 1)) {
    stop(Fault::kBarrier, "meets lanes of its warp without being one of them");
  }
  const unsigned first = block.first_of_warp();
  WarpMeeting* own = nullptr;
  for (unsigned at = first; at < first + block.warp_size && at < threads; ++at) {
    if (warps[at].meeting.arrived != 0 && warps[at].mask != mask) continue;
    if (own == nullptr || warps[at].meeting.arrived != 0) own = &warps[at];
  }
  own->mask = mask;
  own->meeting.name = "the lanes of its warp";
  own->meeting.orders_memory = orders_memory;
  own->meeting.expected = static_cast<unsigned>(__builtin_popcountll(mask & live_lanes()));
  meet(own->meeting);
}

}  // namespace tile
