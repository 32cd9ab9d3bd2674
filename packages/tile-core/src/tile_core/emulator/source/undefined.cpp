// What the compiler's checks of checked kernels call where a computation is one that C leaves undefined.
//
// The names and their arguments are those of the undefined behaviour sanitizer of GCC and Clang, whose own library prints
// and ends the process. Here the thread's block, the printed line and the author's line are told as for any other fault.
#include "checks.h"

namespace tile {

int latest = kNoSite;

namespace {

// What every record of the sanitizer begins with: the file of the code, its line and column.
struct Source {
  const char* file;
  uint32_t line, column;
};

[[noreturn]] void undefined(const void* record, const char* what) {
  const Source& source = *static_cast<const Source*>(record);
  const Dim3 thread = block.self->index;
  Text text;
  text.add("thread (%u, %u, %u) of block (%u, %u, %u) %s", thread.x, thread.y, thread.z, block.index.x, block.index.y,
           block.index.z, what);
  const char* name = strrchr(source.file, '/');
  text.add(", which C leaves undefined, in %s:%u", name == nullptr ? source.file : name + 1, source.line);
  fail(Fault::kUndefined, latest, text);
}

constexpr const char* kOverflow = "computes a signed integer that leaves its range";

}  // namespace
}  // namespace tile

extern "C" {
void __ubsan_handle_add_overflow_abort(void* record, void*, void*) { tile::undefined(record, tile::kOverflow); }
void __ubsan_handle_sub_overflow_abort(void* record, void*, void*) { tile::undefined(record, tile::kOverflow); }
void __ubsan_handle_mul_overflow_abort(void* record, void*, void*) { tile::undefined(record, tile::kOverflow); }
void __ubsan_handle_divrem_overflow_abort(void* record, void*, void*) { tile::undefined(record, tile::kOverflow); }
void __ubsan_handle_negate_overflow_abort(void* record, void*) { tile::undefined(record, tile::kOverflow); }
void __ubsan_handle_shift_out_of_bounds_abort(void* record, void*, void*) {
  tile::undefined(record, "shifts by a negative number or by as many bits as there are");
}
}
