// Between the scheduler and the checks.
#pragma once

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

void record(Fault fault, int site, const Text& text);
// Ends the run from within a fibre.
[[noreturn]] void fail(Fault fault, int site, const Text& text);
const Fibre& fibre_of(unsigned thread);

void begin_launch(const Launch& launch);
void begin_block(const Launch& launch, unsigned threads);
// The members of a meeting that orders memory see each other's accesses from here on. `alive` threads have not ended.
void note_meeting(const Meeting& meeting, unsigned threads, unsigned alive);
// This thread runs from here on.
void resume_access();
// What this thread wrote last is in memory: before it waits, ends, or accesses memory again.
void settle_access();

}  // namespace tile
