// Who wrote and read each piece of memory last, and whether that is ordered before the access at hand.
//
// Time is one counter that every meeting of threads advances. A thread's clock is the time of its last meeting, and an access
// leaves the thread and its clock in the shadow of the memory. It is ordered before an access of another thread where that
// thread has met, directly or through others, the thread that made it, since: where its clock is below what the other
// thread has seen of it. Blocks run in turn, so clocks below the start of the block are those of other blocks, which
// nothing orders in global memory, and clocks below the start of the launch are ordered by the launch.
//
// Two threads that write one value, or one that writes the value that is already there, do not race: the result does not
// depend on the order. So a write that meets another thread's access is judged when its value is known.
#include "checks.h"

#include <string.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace tile {

Running running;
Begun begun;
Lent lent;
unsigned lent_count = 0;

namespace {

constexpr uint16_t kAtomicBit = 0x8000;  // of a mark's site
constexpr unsigned kPageBytes = 4096;
constexpr unsigned kWidest = 64;

struct Pending {
  unsigned char* address = nullptr;
  unsigned bytes = 0;
  unsigned char before[kWidest];
  Fault fault = Fault::kNone;
  int site = kNoSite;
  Text text;
};

const Site* sites = nullptr;
unsigned granule = 1;
uint32_t now = 1, call_start = 1, launch_start = 1, block_start = 1;
Order* orders = new Order[kMaxThreads];
std::vector<Lent> lent_by[kMaxThreads];
Pending pending;
uint32_t oldest = 1;  // marks below are of a time that does not matter for the memory at hand
std::vector<Cell> shared_cells;
std::unordered_map<uintptr_t, std::unique_ptr<Cell[]>> pages;
std::unordered_map<uintptr_t, Order> released;  // what the last ordered update of an element passes on
uintptr_t last_page = 0;
Cell* last_cells = nullptr;

bool is_shared(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(tile_shared) < kSharedBytes;
}

Cell& cell_at(uintptr_t address) {
  if (is_shared(address)) return shared_cells[(address - reinterpret_cast<uintptr_t>(tile_shared)) / granule];
  const uintptr_t page = address / kPageBytes;
  if (page != last_page || last_cells == nullptr) {
    std::unique_ptr<Cell[]>& cells = pages[page];
    if (cells == nullptr) cells.reset(new Cell[kPageBytes / granule]);
    last_page = page, last_cells = cells.get();
  }
  return last_cells[address % kPageBytes / granule];
}

// In a launch of clusters a mark's thread has the rank of its block above these bits.
constexpr unsigned kRankShift = 12;
bool clustered = false;
unsigned rank = 0;
uint32_t cluster_met = 1;  // marks of other blocks of the cluster below this are ordered

uint16_t mark_of(unsigned thread) { return static_cast<uint16_t>(thread | rank << kRankShift); }
unsigned thread_of(const Mark& mark) { return clustered ? mark.thread & ((1u << kRankShift) - 1) : mark.thread; }
bool is_of_cluster(const Mark& mark) { return clustered && mark.thread >> kRankShift != rank; }
bool is_copy(const Mark& mark) { return thread_of(mark) >= kMaxThreads; }

// Whether nothing orders the access that left `mark` before the next one of this thread.
bool is_concurrent(const Mark& mark) {
  if (mark.clock < oldest) return false;
  if (mark.clock < block_start) return mark.clock >= orders[block.self->linear].blocks;
  const unsigned self = block.self->linear;
  const Order& order = orders[self];
  if (is_of_cluster(mark)) return mark.clock >= cluster_met;
  const unsigned thread = thread_of(mark);
  if (thread == self) return false;
  if (is_copy(mark)) {
    const size_t engine = thread - kMaxThreads;
    return engine >= order.copies.size() || mark.clock >= order.copies[engine];
  }
  return mark.clock >= order.all && (thread >= order.of.size() || mark.clock >= order.of[thread]);
}

void add_index(Text& text, const Access& access) {
  if (*sites[access.site].buffer == '\0') {
    text.add("byte %lld of shared memory", static_cast<long long>(access.index[0]));
    return;
  }
  text.add("%s", sites[access.site].buffer);
  if (access.rank == 0) return;
  text.add("[");
  for (int axis = 0; axis < access.rank; ++axis) {
    text.add(axis == 0 ? "%lld" : ", %lld", static_cast<long long>(access.index[axis]));
    if (axis == access.rank - 1 && access.lanes > 1)
      text.add(":%lld", static_cast<long long>(access.index[axis]) + access.lanes);
  }
  text.add("]");
}

void add_thread(Text& text, unsigned thread) {
  const Dim3 at = fibre_of(thread).index;
  text.add("thread (%u, %u, %u)", at.x, at.y, at.z);
}

bool is_ordered(Use use) { return use == Use::kOrdered || use == Use::kOrderedReplace; }

bool replaces(Use use) { return use == Use::kWrite || use == Use::kReplace || use == Use::kOrderedReplace; }

bool is_atomic(Use use) { return use == Use::kAtomic || use == Use::kReplace || is_ordered(use); }

const char* verb(Use use) {
  constexpr const char* verbs[] = {"reads",   "writes", "updates", "updates", "updates",
                                   "updates", "writes", "reads",   "reads"};
  return verbs[static_cast<int>(use)];
}

void add_subject(Text& text, const Access& access) {
  if (access.by != nullptr) text.add("%s of ", access.by);
  add_thread(text, block.self->linear);
  text.add(" of block (%u, %u, %u) %s ", block.index.x, block.index.y, block.index.z, verb(access.use));
  add_index(text, access);
}

Text race(const Access& access, const Mark& mark, const char* did) {
  Text text;
  add_subject(text, access);
  if (is_copy(mark)) {
    text.add(", which %s %s", engine_name(thread_of(mark) - kMaxThreads), did);
    text.add_place(sites, mark.site & ~kAtomicBit).add(": it is not waited for");
  } else if (mark.clock < block_start) {
    text.add(", which a thread of another block %s", did).add_place(sites, mark.site & ~kAtomicBit);
    text.add(": nothing orders the blocks of a launch");
  } else if (is_of_cluster(mark)) {
    text.add(", which a thread of another block of its cluster %s", did).add_place(sites, mark.site & ~kAtomicBit);
    text.add(": no barrier of the cluster is between them");
  } else {
    text.add(", which ");
    add_thread(text, thread_of(mark));
    text.add(" %s", did).add_place(sites, mark.site & ~kAtomicBit);
    text.add(": no barrier is between them");
  }
  return text;
}

// Whether a fence is between the store that left `mark` and this thread's next asynchronous operation.
bool is_fenced(const Mark& mark) {
  const Order& order = orders[block.self->linear];
  const unsigned thread = thread_of(mark);
  return mark.clock < order.fenced_all || (thread < order.fenced.size() && mark.clock < order.fenced[thread]);
}

[[noreturn]] void unfenced(const Access& access, const Mark& mark, const char* did) {
  Text text;
  add_subject(text, access);
  text.add(", which ");
  add_thread(text, thread_of(mark));
  text.add(" %s", did).add_place(sites, mark.site & ~kAtomicBit);
  text.add(": no fence for asynchronous accesses is between them");
  fail(Fault::kFence, access.site, text);
}

// An engine overwrites what threads have read: their loads may be under way still when they say that they have read.
void expect_fenced(const Cell& cell, const Access& access) {
  for (const Mark& read : cell.reads)
    if (read.clock >= block_start && !is_copy(read) && !is_of_cluster(read) && !is_concurrent(read) && !is_fenced(read))
      unfenced(access, read, "reads");
}

void note_read(Cell& cell, const Mark& mark) {
  for (Mark& read : cell.reads) {
    if (read.thread == mark.thread || !is_concurrent(read)) {
      read = mark;
      return;
    }
  }
}

// The first access that conflicts with a write or an atomic update, judged when the value is known.
void expect_no_change(const Access& access, const Mark& mark, const char* did, void* address, unsigned bytes) {
  // What a copy writes is not there yet, and may be there at any time.
  if (access.by != nullptr || is_copy(mark)) fail(Fault::kRace, access.site, race(access, mark, did));
  if (pending.fault != Fault::kNone) return;
  pending.fault = Fault::kRace;
  pending.site = access.site;
  pending.text = race(access, mark, did);
  pending.address = static_cast<unsigned char*>(address);
  pending.bytes = bytes < kWidest ? bytes : kWidest;
  memcpy(pending.before, address, pending.bytes);
}

// Whether a piece of global memory holds nothing: it is the call's own, and the call has not written it.
bool is_unwritten(const Cell& cell, int site) { return sites[site].needs_write && cell.write.clock < call_start; }

const char* wrote(const Mark& mark) { return mark.site & kAtomicBit ? "updated" : "wrote"; }

void touch_read(Cell& cell, const Mark& mark, const Access& access) {
  if (is_concurrent(cell.write)) fail(Fault::kRace, access.site, race(access, cell.write, wrote(cell.write)));
  note_read(cell, mark);
}

void touch_write(Cell& cell, const Mark& mark, const Access& access, void* address, unsigned bytes) {
  const bool both_atomic = is_atomic(access.use) && cell.write.site & kAtomicBit;
  if (!both_atomic && is_concurrent(cell.write))
    expect_no_change(access, cell.write, wrote(cell.write), address, bytes);
  for (const Mark& read : cell.reads)
    if (is_concurrent(read)) expect_no_change(access, read, "reads", address, bytes);
  cell.write = mark;
}

void join_times(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t at = 0; at < from.size(); ++at) into[at] = from[at] > into[at] ? from[at] : into[at];
}

}  // namespace

void Order::join(const Order& other) {
  all = other.all > all ? other.all : all;
  blocks = other.blocks > blocks ? other.blocks : blocks;
  fenced_all = other.fenced_all > fenced_all ? other.fenced_all : fenced_all;
  join_times(of, other.of);
  join_times(copies, other.copies);
  join_times(fenced, other.fenced);
}

void Order::see_copies(unsigned engine, uint32_t below) {
  if (copies.size() <= engine) copies.resize(engine + 1, 0);
  copies[engine] = below > copies[engine] ? below : copies[engine];
}

void begin_call() { call_start = ++now; }

void begin_launch(const Launch& launch) {
  clustered = launch.cluster.count() > 1;
  sites = launch.sites;
  latest = kNoSite;
  if (granule != launch.checked || shared_cells.empty()) {
    granule = launch.checked;
    pages.clear();
    last_cells = nullptr;
    shared_cells.assign(kSharedBytes / granule, Cell{});
  }
  released.clear();
  launch_start = ++now;
}

// Of the blocks of a cluster: what their threads have seen, and the shadow of their shared memory.
struct Kept {
  Order* orders = nullptr;
  std::vector<Cell> shared_cells;
};
static Kept kept[kMaxCluster];

void change_block(unsigned from, unsigned to) {
  kept[from].orders = orders;
  kept[from].shared_cells.swap(shared_cells);
  if (kept[to].orders == nullptr) kept[to].orders = new Order[kMaxThreads];
  orders = kept[to].orders;
  rank = to;
  shared_cells.swap(kept[to].shared_cells);
  if (shared_cells.size() != kSharedBytes / granule) shared_cells.assign(kSharedBytes / granule, Cell{});
}

void note_cluster(unsigned threads, bool opens) {
  ++now;
  if (opens) cluster_met = now;
  for (unsigned t = 0; t < threads; ++t) {
    orders[t].clock = orders[t].all = now;
    orders[t].of.clear();
  }
}

// Blocks of a cluster run at the same time: the time of the first one is the start of all.
void begin_block(const Launch&, unsigned threads, bool first) {
  if (first) {
    block_start = cluster_met = ++now;
    for (std::vector<Lent>& given : lent_by) given.clear();
    lent_count = 0;
  }
  pending.fault = Fault::kNone;
  for (unsigned t = 0; t < threads; ++t) orders[t] = Order{now, now, {}, 0, {}, 0, {}};
}

void resume_access() {
  const unsigned self = block.self->linear;
  const Order& order = orders[self];
  running.shared = shared_cells.data();
  running.granule = order.of.empty() ? granule : 0;
  running.block_start = block_start;
  running.clock = order.clock;
  running.all = order.all;
  running.thread = mark_of(self);
}

void note_meeting(const Meeting& meeting, unsigned threads, unsigned alive) {
  ++now;
  unsigned count = 0;
  for (uint64_t word : meeting.members) count += static_cast<unsigned>(__builtin_popcountll(word));
  if (count == alive) {
    uint32_t blocks = 0;
    Order joined;
    for (unsigned t = 0; t < threads; ++t) {
      blocks = orders[t].blocks > blocks ? orders[t].blocks : blocks;
      join_times(joined.copies, orders[t].copies);
      joined.fenced_all = orders[t].fenced_all > joined.fenced_all ? orders[t].fenced_all : joined.fenced_all;
      join_times(joined.fenced, orders[t].fenced);
    }
    joined.clock = joined.all = now, joined.blocks = blocks;
    for (unsigned t = 0; t < threads; ++t) orders[t] = joined;
    return;
  }
  // What the members have seen of every thread, joined; of each other, everything before this meeting.
  Order joined;
  joined.of.assign(threads, 0);
  for (unsigned t = 0; t < threads; ++t)
    if (meeting.members[t / 64] >> t % 64 & 1) joined.join(orders[t]);
  for (unsigned t = 0; t < threads; ++t)
    if (meeting.members[t / 64] >> t % 64 & 1) joined.of[t] = now;
  joined.clock = now;
  for (unsigned t = 0; t < threads; ++t)
    if (meeting.members[t / 64] >> t % 64 & 1) orders[t] = joined;
}

void release_order(Order& into) {
  const unsigned self = block.self->linear;
  Order& order = orders[self];
  ++now;
  into.join(order);
  if (into.of.size() <= self) into.of.resize(self + 1, 0);
  into.of[self] = now;
  order.clock = now;
  resume_access();
}

void acquire_order(const Order& from) {
  orders[block.self->linear].join(from);
  resume_access();
}

uint32_t advance_time() { return ++now; }

void see_copies(unsigned engine, uint32_t below) { orders[block.self->linear].see_copies(engine, below); }

bool has_seen(unsigned thread, uint32_t clock) {
  oldest = block_start;
  return !is_concurrent(Mark{clock, mark_of(thread), 0});
}

uint32_t clock_of_thread() { return orders[block.self->linear].clock; }

void note_fence() {
  settle_access();
  const unsigned self = block.self->linear;
  Order& order = orders[self];
  order.fenced_all = order.all > order.fenced_all ? order.all : order.fenced_all;
  join_times(order.fenced, order.of);
  if (order.fenced.size() <= self) order.fenced.resize(self + 1, 0);
  order.fenced[self] = order.clock = ++now;
  resume_access();
}

void touch_by_copy(const void* place, unsigned bytes, Use use, const Spot& spot, unsigned engine, uint32_t time) {
  settle_access();
  const Access access{use, spot.site, 1, spot.rank, spot.index, spot.extent, engine_name(engine)};
  const uintptr_t first = reinterpret_cast<uintptr_t>(place);
  const bool shared = is_shared(first);
  const uint16_t site = static_cast<uint16_t>(spot.site) | (is_atomic(use) ? kAtomicBit : 0);
  const Mark mark{time, mark_of(kMaxThreads + engine), site};
  const bool fences = shared && !is_of_threads(engine);
  oldest = shared ? block_start : launch_start;
  for (uintptr_t at = first; at < first + bytes; at += granule) {
    Cell& cell = cell_at(at);
    if (use == Use::kRead) {
      if (shared ? cell.write.clock < block_start : is_unwritten(cell, spot.site)) unwritten(access);
      touch_read(cell, mark, access);
      if (shared && !is_copy(cell.write) && !is_fenced(cell.write)) unfenced(access, cell.write, "wrote");
    } else {
      if (fences) expect_fenced(cell, access);
      touch_write(cell, mark, access, const_cast<void*>(place), bytes);
    }
  }
}

// In another block of the cluster what its threads have read and written is not looked at: only that this is on its way.
void touch_beside(unsigned of, const void* place, unsigned bytes, const Spot& spot, unsigned engine, uint32_t time) {
  const Mark mark{time, static_cast<uint16_t>((kMaxThreads + engine) | of << kRankShift),
                  static_cast<uint16_t>(spot.site)};
  const uintptr_t first = reinterpret_cast<uintptr_t>(place) - reinterpret_cast<uintptr_t>(tile_shared);
  for (uintptr_t at = first; at < first + bytes; at += granule) kept[of].shared_cells[at / granule].write = mark;
}

// Takes over what the last ordered update of this element passed on, then passes on what this thread has seen and done.
static void acquire_and_release(uintptr_t address) {
  const unsigned self = block.self->linear;
  Order& order = orders[self];
  Order& passed = released[address];
  if (passed.clock >= block_start) {
    order.join(passed);
  } else if (passed.clock >= launch_start) {
    // Earlier blocks have ended; everything of them up to the update is taken to be ordered.
    order.blocks = passed.clock > order.blocks ? passed.clock : order.blocks;
  }
  ++now;
  passed = order;
  passed.clock = now;
  if (passed.of.size() <= self) passed.of.resize(self + 1, 0);
  passed.of[self] = now;
  order.clock = now;
  resume_access();
}

void settle_access() {
  if (pending.fault == Fault::kNone) return;
  const bool changed = memcmp(pending.before, pending.address, pending.bytes) != 0;
  const Fault fault = pending.fault;
  pending.fault = Fault::kNone;
  if (changed) fail(fault, pending.site, pending.text);
}

void touch(const volatile void* place, unsigned bytes, const Access& access) {
  settle_access();
  void* const address = const_cast<void*>(place);
  const uintptr_t first = reinterpret_cast<uintptr_t>(address);
  const unsigned self = block.self->linear;
  const uint16_t site = static_cast<uint16_t>(access.site) | (is_atomic(access.use) ? kAtomicBit : 0);
  const Mark mark{orders[self].clock, mark_of(self), site};
  oldest = is_shared(first) ? block_start : launch_start;
  const bool shared = is_shared(first);
  const bool must_be_written = !replaces(access.use);
  // The order that an update takes over holds for the update; what it passes on ends before its thread's next access.
  if (is_ordered(access.use)) acquire_and_release(first);
  for (uintptr_t at = first; at < first + bytes; at += granule) {
    Cell& cell = cell_at(at);
    if (must_be_written && (shared ? cell.write.clock < block_start : is_unwritten(cell, access.site))) unwritten(access);
    if (access.use == Use::kRead) {
      touch_read(cell, mark, access);
    } else {
      touch_write(cell, mark, access, address, bytes);
    }
  }
}

void out_of_bounds(const Access& access) {
  Text text;
  add_subject(text, access);
  text.add(", outside of its extents (");
  for (int axis = 0; axis < access.rank; ++axis)
    text.add(axis == 0 ? "%lld" : ", %lld", static_cast<long long>(access.extent[axis]));
  text.add(")");
  fail(Fault::kBounds, access.site, text);
}

void unwritten(const Access& access) {
  Text text;
  add_subject(text, access);
  text.add(", which nothing has written");
  fail(Fault::kUnwritten, access.site, text);
}

void under_way(const Access& access) {
  Text text;
  add_subject(text, access);
  text.add(", which an operation under way writes: it is not waited for");
  fail(Fault::kUnwritten, access.site, text);
}

bool overlaps(const Lent& given, const void* first, unsigned bytes) {
  const auto* const begin = static_cast<const unsigned char*>(first);
  return begin < given.first + given.bytes && given.first < begin + bytes;
}

void lend(const Lent& given) {
  if (given.first == nullptr) return;
  lent_by[block.self->linear].push_back(given);
  ++lent_count;
}

void give_back(const Lent& given) {
  std::vector<Lent>& own = lent_by[block.self->linear];
  for (size_t at = 0; at < own.size(); ++at) {
    if (own[at].first != given.first || own[at].bytes != given.bytes) continue;
    own.erase(own.begin() + static_cast<std::ptrdiff_t>(at));
    --lent_count;
    return;
  }
}

void end_lending(const void* first, unsigned bytes) {
  std::vector<Lent>& own = lent_by[block.self->linear];
  for (size_t at = own.size(); at-- > 0;) {
    if (!overlaps(own[at], first, bytes)) continue;
    own.erase(own.begin() + static_cast<std::ptrdiff_t>(at));
    --lent_count;
  }
}

void expect_not_lent(const void* first, unsigned bytes, const Access& access) {
  for (const Lent& given : lent_by[block.self->linear]) {
    if (!overlaps(given, first, bytes)) continue;
    Text text;
    add_subject(text, access);
    text.add(", which an asynchronous instruction reads").add_place(sites, given.site).add(": it is not waited for");
    fail(Fault::kRace, access.site, text);
  }
}

void misaligned(const Access& access, unsigned bytes) {
  Text text;
  add_subject(text, access);
  text.add(" as one vector of %u bytes, at an address that is no multiple of that", bytes);
  fail(Fault::kAlignment, access.site, text);
}

}  // namespace tile
