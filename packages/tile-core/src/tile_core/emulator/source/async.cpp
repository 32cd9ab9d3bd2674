// Copies beside the threads, their groups, and barriers with phases.
#include "tile_async.h"

#include <stdio.h>
#include <string.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "checks.h"

namespace tile {

namespace {

struct Run {
  unsigned char* to;
  const unsigned char* from;
  unsigned bytes;
};

constexpr unsigned kOwnRank = ~0u;
struct Copy {
  CopyKind kind;
  Spot place;
  Combine combine = nullptr;
  std::vector<Run> runs;
  std::vector<unsigned char> read;  // what a copy from shared memory has read, until it writes
  std::vector<std::shared_ptr<std::vector<unsigned char>>> kept;  // what runs from shared memory bring
  unsigned bytes = 0, thread = 0;
  unsigned rank = kOwnRank;  // the block of the cluster where it lands, if that is another one than waits for it
  int line = kNoSite;
  uint32_t time = 0;
  bool has_read = false, landed = false;
  void (*end)(void*) = nullptr;  // of an instruction, in place of runs
  void* data = nullptr;
};
using Held = std::shared_ptr<Copy>;
using Group = std::vector<Held>;

struct Groups {
  Group open;
  std::deque<Group> committed;
};

constexpr uint64_t kMark = 0x7e9a11d0ba44e500;
constexpr unsigned kMostArrivals = (1u << 20) - 1;

struct PhaseBarrier {
  Spot place;
  unsigned count = 0, missing = 0, number = 0;
  int64_t bytes = 0;  // expected and not there yet
  uint64_t phase = 0;
  unsigned maker = 0;
  uint32_t made = 0;
  bool fenced = false;
  Group coming, complete;
  Order released, passed;
  Meeting waiting[2];
  char names[2][320] = {};
};

std::map<std::pair<unsigned, unsigned char*>, PhaseBarrier> barriers;  // by the rank of the block and the address
std::map<unsigned, Groups> groups[3];
Held described;
unsigned engines = 0;
std::map<std::pair<unsigned, unsigned>, unsigned> engine_numbers;

// The engines of the shadow: what a barrier covers, and what each thread's groups write, and read, is waited for apart.
enum class Unit : unsigned { kBarrier, kLoader, kReader, kWriter, kThread, kInstruction };
unsigned engine_of(Unit unit, unsigned owner) {
  const auto made = engine_numbers.try_emplace({static_cast<unsigned>(unit), owner}, engines);
  if (made.second) ++engines;
  return made.first->second;
}

unsigned self() { return block.self->linear; }
// This thread among those of its cluster.
unsigned self_of_cluster() { return block_rank() * kMaxThreads + self(); }

Text& add_spot(Text& text, const Spot& place) {
  const Site* const sites = running_launch().sites;
  if (place.site == kNoSite || sites == nullptr)
    return text.add("shared memory at byte %zu", shared_offset(place.address));
  text.add("%s", sites[place.site].buffer);
  for (int axis = 0; axis < place.rank; ++axis)
    text.add(axis == 0 ? "[%lld" : ", %lld", static_cast<long long>(place.index[axis]));
  return text.add(place.rank ? "]" : "");
}

void add_self(Text& text) {
  const Dim3 at = block.self->index;
  text.add("thread (%u, %u, %u) of block (%u, %u, %u)", at.x, at.y, at.z, block.index.x, block.index.y, block.index.z);
}

[[noreturn]] void refuse(const Spot& place, const char* does, const char* why) {
  Text text;
  add_self(text);
  text.add(" %s ", does);
  add_spot(text, place).add("%s", why);
  fail(Fault::kCopy, place.site == kNoSite ? block.self->site : place.site, text);
}

void check_shared(const Spot& place, const char* does) {
  if (shared_offset(place.address) >= running_launch().shared_bytes) refuse(place, does, ", which is outside of the block's shared memory");
}

PhaseBarrier& barrier_at(const Spot& place, const char* does, unsigned rank) {
  check_shared(place, does);
  if (rank >= blocks_of_cluster()) refuse(place, does, ", in a block that the cluster does not have");
  const auto found = barriers.find({rank, place.address});
  uint64_t word = 0;
  memcpy(&word, shared_memory_of(rank) + shared_offset(place.address), sizeof(word));
  if (found == barriers.end() || word != kMark + found->second.number)
    refuse(place, does, ", which is no initialised barrier");
  PhaseBarrier& barrier = found->second;
  if (is_checked() && rank == block_rank() && !has_seen(barrier.maker, barrier.made))
    refuse(place, does, ", whose initialisation by another thread it does not see: no barrier is between them");
  return barrier;
}

PhaseBarrier& barrier_at(const Spot& place, const char* does) { return barrier_at(place, does, block_rank()); }

void land(Copy& copy) {
  if (copy.landed) return;
  copy.landed = true;
  if (copy.end != nullptr) copy.end(copy.data);
  for (const Run& run : copy.runs) {
    unsigned char* const to =
        copy.rank == kOwnRank ? run.to : shared_memory_of(copy.rank) + shared_offset(run.to);
    if (run.from == nullptr) {
      memset(to, 0, run.bytes);
    } else {
      memcpy(to, run.from, run.bytes);
    }
  }
}

void read_shared(Copy& copy) {
  if (copy.has_read) return;
  copy.has_read = true;
  for (const Run& run : copy.runs) copy.read.insert(copy.read.end(), run.from, run.from + run.bytes);
}

void write_global(Copy& copy) {
  read_shared(copy);
  if (copy.landed) return;
  copy.landed = true;
  const unsigned char* from = copy.read.data();
  for (const Run& run : copy.runs) {
    if (copy.combine == nullptr) {
      memcpy(run.to, from, run.bytes);
    } else {
      copy.combine(run.to, from, run.bytes);
    }
    from += run.bytes;
  }
}

void end_phase_if_complete(PhaseBarrier& barrier, const char* does) {
  if (barrier.missing != 0) return;
  if (barrier.bytes < 0) {
    char why[96];
    snprintf(why, sizeof(why), ", whose phase gets %lld bytes more than it expects",
             static_cast<long long>(-barrier.bytes));
    refuse(barrier.place, does, why);
  }
  if (barrier.bytes != 0) return;
  const Meeting& over = barrier.waiting[barrier.phase & 1];
  ++barrier.phase;
  barrier.missing = barrier.count;
  barrier.complete.insert(barrier.complete.end(), barrier.coming.begin(), barrier.coming.end());
  barrier.coming.clear();
  barrier.passed.join(barrier.released);
  barrier.released = Order{};
  wake(over);
}

void arrive(PhaseBarrier& barrier, const Spot& place, bool releases) {
  if (barrier.missing == 0) refuse(place, "arrives at", ", whose phase has all of its arrivals already");
  if (is_checked() && releases) {
    settle_access();
    release_order(barrier.released);
  }
  --barrier.missing;
  end_phase_if_complete(barrier, "arrives at");
}

Unit unit_of(CopyKind kind) {
  constexpr Unit units[] = {Unit::kLoader, Unit::kReader, Unit::kThread};
  return units[static_cast<int>(kind)];
}

// Tells the shadow what a copy reads and writes. What it reads may be read, and what it writes be written, from here on.
void touch_runs(const Copy& copy, unsigned reader, unsigned writer, bool fills) {
  for (const Run& run : copy.runs) {
    const bool adds = copy.combine != nullptr;
    if (run.from != nullptr) touch_by_copy(run.from, run.bytes, Use::kRead, copy.place, reader, copy.time);
    touch_by_copy(run.to, run.bytes, adds ? Use::kAtomic : Use::kWrite, copy.place, writer, copy.time);
    if (fills) memset(run.to, kPoison, run.bytes);
  }
}

void issue(unsigned reader, unsigned writer) {
  const bool fills = described->kind != CopyKind::kFromShared;
  if (is_checked()) {
    described->time = advance_time();
    touch_runs(*described, reader, writer, fills);
  } else if (fills) {
    for (const Run& run : described->runs) memset(run.to, kPoison, run.bytes);
  }
}

// The same into another block of the cluster, whose waits let it land there.
void issue_beside(unsigned rank, unsigned engine) {
  if (is_checked()) described->time = advance_time();
  for (const Run& run : described->runs) {
    if (is_checked()) touch_beside(rank, run.to, run.bytes, described->place, engine, described->time);
    memset(shared_memory_of(rank) + shared_offset(run.to), kPoison, run.bytes);
  }
}

void report_unfinished(const Copy& copy, const char* what) {
  Text text;
  const bool is_copy = copy.end == nullptr;
  text.add("block (%u, %u, %u) ends while %s of thread %u %s ", block.index.x, block.index.y, block.index.z,
           is_copy ? "a copy" : "an asynchronous instruction", copy.thread, is_copy ? what : "signals");
  add_spot(text, copy.place).add(": nothing waits for it");
  record(Fault::kCopy, copy.place.site == kNoSite ? copy.line : copy.place.site, text);
}

}  // namespace

void begin_copies() {
  barriers.clear();
  for (auto& kind : groups) kind.clear();
  described.reset();
  engine_numbers.clear();
  engines = 0;
}

void end_copies() {
  for (auto& entry : groups[static_cast<int>(CopyKind::kFromShared)]) {
    Groups& own = entry.second;
    own.committed.push_back(own.open);
    for (const Group& group : own.committed)
      for (const Held& copy : group) {
        if (!copy->has_read) return report_unfinished(*copy, "reads");
        write_global(*copy);
      }
  }
  for (const auto& entry : barriers)
    for (const Group* group : {&entry.second.coming, &entry.second.complete})
      for (const Held& copy : *group)
        if (!copy->landed) return report_unfinished(*copy, "writes");
}

void name_phases() {
  for (auto& entry : barriers) {
    PhaseBarrier& barrier = entry.second;
    const int64_t bytes = barrier.bytes;
    for (unsigned parity = 0; parity < 2; ++parity) {
      Text text;
      text.add("the phase of parity %u of ", parity);
      add_spot(text, barrier.place);
      text.add(", which is in phase %llu and misses %u of %u arrivals and %lld bytes",
               static_cast<unsigned long long>(barrier.phase), barrier.missing, barrier.count,
               static_cast<long long>(bytes));
      snprintf(barrier.names[parity], sizeof(barrier.names[parity]), "%s", text.text());
      barrier.waiting[parity].name = barrier.names[parity];
    }
  }
}

void phase_init(const Spot& place, unsigned count) {
  check_shared(place, "initialises");
  if (shared_offset(place.address) % 8 != 0) refuse(place, "initialises", ", which is not at a multiple of 8 bytes");
  if (count == 0 || count > kMostArrivals) refuse(place, "initialises", " for a number of arrivals that no barrier has");
  const unsigned number = static_cast<unsigned>(barriers.size());
  PhaseBarrier& barrier = barriers[{block_rank(), place.address}];
  for (const Meeting& meeting : barrier.waiting)
    for (unsigned t = 0; t < block.block.count(); ++t)
      if (fibre_of(t).waits_for == &meeting) refuse(place, "initialises", ", for which threads wait");
  const unsigned kept = barrier.count == 0 ? number : barrier.number;
  barrier = PhaseBarrier{};
  barrier.place = place, barrier.number = kept, barrier.count = barrier.missing = count, barrier.maker = self();
  if (is_checked()) {
    const Access access{Use::kWrite, place.site, 1, place.rank, place.index, place.extent};
    touch(place.address, sizeof(uint64_t), access);
    barrier.made = clock_of_thread();
  }
  const uint64_t word = kMark + barrier.number;
  memcpy(place.address, &word, sizeof(word));
}

void phase_init_fence() {
  for (auto& entry : barriers)
    if (entry.first.first == block_rank() && entry.second.maker == self()) entry.second.fenced = true;
}

void phase_arrive(const Spot& place) { arrive(barrier_at(place, "arrives at"), place, true); }

void phase_arrive_at(const Spot& place, unsigned rank) {
  arrive(barrier_at(place, "arrives at", rank), place, rank == block_rank());
}

void phase_expect(const Spot& place, unsigned bytes) { phase_expect_at(place, bytes, block_rank()); }

void phase_expect_at(const Spot& place, unsigned bytes, unsigned rank) {
  PhaseBarrier& barrier = barrier_at(place, "expects bytes at", rank);
  if (barrier.missing == 0) refuse(place, "expects bytes at", ", whose phase has all of its arrivals already");
  barrier.bytes += bytes;
}

void phase_wait(const Spot& place, unsigned parity) {
  PhaseBarrier& barrier = barrier_at(place, "waits at");
  while ((barrier.phase & 1) == (parity & 1)) sleep_for(barrier.waiting[parity & 1]);
  for (const Held& copy : barrier.complete) land(*copy);
  barrier.complete.clear();
  if (is_checked()) acquire_order(barrier.passed);
}

void phase_arrive_after_copies(const Spot& place) {
  PhaseBarrier& barrier = barrier_at(place, "arrives at");
  Groups& own = groups[static_cast<int>(CopyKind::kOfThread)][self_of_cluster()];
  uint32_t last = 0;
  const auto add = [&](const Group& group) {
    for (const Held& copy : group) {
      if (!copy->landed) barrier.coming.push_back(copy);
      last = copy->time > last ? copy->time : last;
    }
  };
  for (const Group& group : own.committed) add(group);
  add(own.open);
  if (is_checked()) barrier.released.see_copies(engine_of(Unit::kThread, self_of_cluster()), last + 1);
  arrive(barrier, place, true);
}

void copy_begin(CopyKind kind, const Spot& place, Combine combine) {
  described = std::make_shared<Copy>();
  described->kind = kind, described->place = place, described->combine = combine;
  described->thread = self(), described->line = block.self->site;
}

void copy_run(void* to, const void* from, unsigned bytes) {
  const unsigned char* shared = static_cast<const unsigned char*>(described->kind == CopyKind::kFromShared ? from : to);
  if (shared_offset(shared) + bytes > running_launch().shared_bytes)
    refuse(described->place, "copies at", " a box that leaves the block's shared memory");
  described->runs.push_back({static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes});
  described->bytes += bytes;
}

void copy_run_from_shared(void* to, const void* from, unsigned bytes) {
  const unsigned char* const begin = static_cast<const unsigned char*>(from);
  described->kept.push_back(std::make_shared<std::vector<unsigned char>>(begin, begin + bytes));
  copy_run(to, described->kept.back()->data(), bytes);
}

void copy_issue() {
  const bool engine = described->kind == CopyKind::kFromShared;
  const unsigned reader = engine_of(unit_of(described->kind), self_of_cluster());
  issue(reader, engine ? engine_of(Unit::kWriter, self_of_cluster()) : reader);
  groups[static_cast<int>(described->kind)][self_of_cluster()].open.push_back(described);
  described.reset();
}

void copy_issue(const Spot& place) { copy_issue_to(place, 1u << block_rank()); }

void copy_issue_to(const Spot& place, unsigned mask) {
  const Held whole = described;
  for (unsigned rank = 0; rank < 32; ++rank) {
    if (!(mask >> rank & 1)) continue;
    PhaseBarrier& barrier = barrier_at(place, "copies and signals", rank);
    if (!barrier.fenced)
      refuse(place, "copies and signals", ", which copies do not know: no fence follows its initialisation");
    const unsigned engine = engine_of(Unit::kBarrier, barrier.number);
    described = std::make_shared<Copy>(*whole);
    if (rank == block_rank()) {
      issue(engine, engine);
    } else {
      issue_beside(rank, engine);
    }
    if (is_checked()) barrier.released.see_copies(engine, described->time + 1);
    barrier.bytes -= described->bytes;
    barrier.coming.push_back(described);
    end_phase_if_complete(barrier, "copies and signals");
  }
  described.reset();
}

void copy_issue_at(const Spot& place, unsigned rank) {
  PhaseBarrier& barrier = barrier_at(place, "copies and signals", rank);
  if (!barrier.fenced)
    refuse(place, "copies and signals", ", which copies do not know: no fence follows its initialisation");
  const unsigned engine = engine_of(Unit::kBarrier, barrier.number);
  if (rank == block_rank()) {
    issue(engine, engine);
    if (is_checked()) barrier.released.see_copies(engine, described->time + 1);
  } else {
    // Threads of this block do not wait for it, so the shadow would never see it pass.
    described->rank = block_rank();
    for (const Run& run : described->runs) memset(run.to, kPoison, run.bytes);
  }
  barrier.bytes -= described->bytes;
  barrier.coming.push_back(described);
  end_phase_if_complete(barrier, "copies and signals");
  described.reset();
}

void copy_commit(CopyKind kind) {
  Groups& own = groups[static_cast<int>(kind)][self_of_cluster()];
  own.committed.push_back(own.open);
  own.open.clear();
}

void copy_wait(CopyKind kind, unsigned pending, bool read) {
  Groups& own = groups[static_cast<int>(kind)][self_of_cluster()];
  const size_t done = own.committed.size() > pending ? own.committed.size() - pending : 0;
  const bool engine = kind == CopyKind::kFromShared;
  for (size_t at = 0; at < done; ++at) {
    const Group& group = own.committed[at];
    for (const Held& copy : group) {
      if (!engine) land(*copy);
      if (engine && read) read_shared(*copy);
      if (engine && !read) write_global(*copy);
      if (!is_checked()) continue;
      see_copies(engine_of(unit_of(kind), self_of_cluster()), copy->time + 1);
      if (engine && !read) see_copies(engine_of(Unit::kWriter, self_of_cluster()), copy->time + 1);
    }
  }
  if (!read) own.committed.erase(own.committed.begin(), own.committed.begin() + static_cast<std::ptrdiff_t>(done));
}

void proxy_fence() {
  phase_init_fence();
  if (is_checked()) note_fence();
}

bool is_checked() { return running_launch().checked != 0; }

bool has_seen_end(unsigned unit, uint32_t time) { return has_seen(kMaxThreads + engine_of(Unit::kInstruction, unit), time); }

bool is_of_threads(unsigned engine) {
  for (const auto& made : engine_numbers)
    if (made.second == engine) return made.first.first == static_cast<unsigned>(Unit::kThread);
  return false;
}

const char* engine_name(unsigned engine) {
  for (const auto& made : engine_numbers)
    if (made.second == engine && made.first.first == static_cast<unsigned>(Unit::kInstruction))
      return "an asynchronous instruction";
  return "a copy";
}

uint32_t begin_reads() { return is_checked() ? advance_time() : 0; }

void read_beside(unsigned unit, uint32_t time, const void* address, unsigned bytes) {
  if (!is_checked()) return;
  Spot place(address);
  place.site = block.self->site, place.rank = 1;
  place.index[0] = static_cast<int64_t>(shared_offset(address));
  place.extent[0] = static_cast<int64_t>(running_launch().shared_bytes);
  if (place.index[0] + bytes > place.extent[0]) {
    const Access access{Use::kRead, place.site, 1, 1, place.index, place.extent, "an asynchronous instruction"};
    out_of_bounds(access);
  }
  touch_by_copy(address, bytes, Use::kRead, place, engine_of(Unit::kInstruction, unit), time);
}

void end_reads(unsigned unit, uint32_t time) {
  if (is_checked()) see_copies(engine_of(Unit::kInstruction, unit), time + 1);
}

void phase_arrive_after(const Spot& place, unsigned unit, uint32_t time, void (*end)(void*), void* data) {
  PhaseBarrier& barrier = barrier_at(place, "signals");
  copy_begin(CopyKind::kToShared, place);
  described->end = end, described->data = data;
  barrier.coming.push_back(described);
  described.reset();
  if (is_checked()) barrier.released.see_copies(engine_of(Unit::kInstruction, unit), time + 1);
  arrive(barrier, place, true);
}

void refuse_copy(const Spot& place, const char* why) { refuse(place, "copies at", why); }

}  // namespace tile
