// Between the scheduler and the checks.
#pragma once

#include <vector>

#include "tile_checks.h"

namespace tile {

class Text {
 public:
  Text& add(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // " (file:line)" of a site, nothing where it is not known.
  Text& add_place(const Site* sites, int site);
  const char* text() const { return text_; }

 private:
  char text_[2048] = "";
  size_t length_ = 0;
};

// What a thread has seen: of the accesses of others, and of copies.
struct Order {
  uint32_t clock = 0, all = 0;   // marks of any thread of this block below `all` are ordered
  std::vector<uint32_t> of;      // and those of thread t below of[t], after meetings of some threads only
  uint32_t blocks = 0;           // marks of earlier blocks below this are ordered, after ordered atomic updates
  std::vector<uint32_t> copies;  // marks of engine e below copies[e] are ordered: its copies have been waited for
  uint32_t fenced_all = 0;       // as `all` and `of`, for what is fenced off for engines
  std::vector<uint32_t> fenced;

  // Sees what `other` has seen.
  void join(const Order& other);
  void see_copies(unsigned engine, uint32_t below);
};

void record(Fault fault, int site, const Text& text);
// Ends the run from within a fibre.
[[noreturn]] void fail(Fault fault, int site, const Text& text);
const Fibre& fibre_of(unsigned thread);
const Launch& running_launch();
// The rank of the running block in its cluster, how many blocks that has, and where a block's shared memory is kept.
unsigned block_rank();
unsigned blocks_of_cluster();
unsigned char* shared_memory_of(unsigned rank);

void begin_launch(const Launch& launch);
void begin_block(const Launch& launch, unsigned threads, bool first);
// The members of a meeting that orders memory see each other's accesses from here on. `alive` threads have not ended.
void note_meeting(const Meeting& meeting, unsigned threads, unsigned alive);
// Every thread of the block sees what all have done: they have met others, too. `opens` at the time of the meeting.
void note_cluster(unsigned threads, bool opens);
// The checks' state of one block of a cluster is kept, and that of another one is taken back.
void change_block(unsigned from, unsigned to);
// This thread runs from here on.
void resume_access();
// Leaves what this thread has seen and done for others, who take it over.
void release_order(Order& into);
void acquire_order(const Order& from);
// A time after everything that has happened.
uint32_t advance_time();
// An access by a copy of `engine` that this thread issues at `time`.
void touch_by_copy(const void* address, unsigned bytes, Use use, const Spot& place, unsigned engine, uint32_t time);
void touch_beside(unsigned of, const void* address, unsigned bytes, const Spot& place, unsigned engine, uint32_t time);
void see_copies(unsigned engine, uint32_t below);
// What an engine is called in reports.
const char* engine_name(unsigned engine);
// Whether its accesses are of the kind that the threads' own are, with no fence between them.
bool is_of_threads(unsigned engine);
void note_fence();

// What `source/async.cpp` does at the ends of a block, and before a deadlock is described.
void begin_copies();
void end_copies();
void name_phases();

// What this thread wrote last is in memory: before it waits, ends, or accesses memory again.
void settle_access();

}  // namespace tile
