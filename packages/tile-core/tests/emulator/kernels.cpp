// Kernels written on the emulator itself; `test_scheduler.py` and `test_checks.py` run them.
#include "tile_checks.h"
#include "tile_emulator.h"

namespace {

const tile::Site kSites[] = {{"A", "k.py:1"}, {"S", "k.py:2"}, {"S", "k.py:3"}, {"", "k.py:4"}, {"", "k.py:5"}, {"x", "k.py:6"}};

unsigned thread() { return tile::block.self->linear; }
unsigned count() { return tile::block.block.count(); }
int* shared() { return reinterpret_cast<int*>(tile_shared); }
int64_t* out(void* const* cells) { return static_cast<int64_t*>(cells[0]); }
int64_t argument(void* const* cells) { return *static_cast<int64_t*>(cells[1]); }

int& write(int64_t index) {
  return tile::memory<tile::kWrite>(shared(), index, 1, tile::Place<1>{{index}, {int64_t(count())}});
}
const int& read(int64_t index) {
  return tile::memory<tile::kRead>(shared(), index, 2, tile::Place<1>{{index}, {int64_t(count())}});
}
int64_t& global(int64_t* base, int64_t index) {
  return tile::memory<tile::kWrite>(base, index, 0, tile::Place<1>{{index}, {64}});
}

// -- scheduling

void neighbours(void* const* cells) {
  shared()[thread()] = static_cast<int>(thread());
  tile::barrier();
  out(cells)[thread()] = shared()[(thread() + 1) % count()];
}
// Values that live in registers over many switches.
void accumulate(void* const* cells) {
  double a = thread(), b = 0.5, c = 1;
  int64_t d = 7 * thread();
  for (int round = 0; round < 50; ++round) {
    tile::barrier();
    a += b, b *= 1.25, c += a * b, d = d * 3 + round;
  }
  out(cells)[thread()] = d ^ static_cast<int64_t>(c);
}
void count_blocks(void* const* cells) {
  const tile::Dim3 at = tile::block.index, of = tile::block.grid;
  const int64_t order = out(cells)[0]++;
  out(cells)[1 + (at.z * of.y + at.y) * of.x + at.x] = order;
}
void thread_indices(void* const* cells) {
  const tile::Dim3 at = tile::block.self->index;
  out(cells)[thread()] = at.x + 100 * at.y + 10000 * at.z;
}
void poisoned(void* const* cells) { out(cells)[0] = shared()[0]; shared()[0] = 1; }
void deep_stack(void* const* cells) {
  volatile char large[200 * 1024];
  for (size_t at = 0; at < sizeof(large); at += 512) large[at] = static_cast<char>(thread());
  tile::barrier();
  int64_t wrong = 0;
  for (size_t at = 0; at < sizeof(large); at += 512) wrong += large[at] != static_cast<char>(thread());
  out(cells)[thread()] = wrong;
}
void leave_early(void* const* cells) {
  if (thread() % 2) return;
  tile::barrier();
  out(cells)[thread()] = 1;
}
void half_at_named(void*  const*) {
  if (thread() < count() / 2) tile::named_barrier(1, count());
  else tile::barrier();
}
// Consumers wait for producers, which only arrive.
void producers_and_consumers(void* const* cells) {
  const bool producer = thread() >= count() / 2;
  if (producer) shared()[thread()] = static_cast<int>(thread());
  tile::named_barrier(3, count(), !producer);
  if (!producer) out(cells)[thread()] = shared()[thread() + count() / 2];
}

// -- what lanes do together

uint64_t all() { return ~uint64_t{0}; }
void exchange_xor(void* const* cells) {
  const unsigned distance = static_cast<unsigned>(argument(cells));
  out(cells)[thread()] = tile::exchange(all(), int(thread()), [=](unsigned lane) { return lane ^ distance; });
}
void ballot_odd(void* const* cells) {
  out(cells)[thread()] = static_cast<int64_t>(tile::ballot(all(), thread() % 2));
}
void match_thirds(void* const* cells) {
  out(cells)[thread()] = static_cast<int64_t>(tile::match_any(all(), thread() % 3));
}
void reduce_sum(void* const* cells) {
  out(cells)[thread()] = tile::reduce(all(), int64_t(thread()), [](int64_t a, int64_t b) { return a + b; });
}
// Two halves of a warp exchange by themselves.
void two_masks(void* const* cells) {
  const uint64_t mask = thread() % 2 ? 0xaaaaaaaau : 0x55555555u;
  for (int round = 0; round <= int(thread() % 2); ++round)
    out(cells)[thread()] = tile::exchange(mask, int(thread()), [](unsigned lane) { return lane ^ 2; });
}
void outside_of_mask(void* const*) { tile::meet_warp(1, false); }
void missing_lane(void* const*) {
  if (thread() != 5) tile::meet_warp(all(), false);
  else tile::barrier();
}

// -- checks

void dropped_barrier(void* const* cells) {
  write(thread()) = static_cast<int>(thread());
  if (argument(cells)) tile::barrier();
  out(cells)[thread()] = read((thread() + 1) % count());
}
void same_value(void* const*) { write(0) = 7; }
void other_value(void* const*) { write(0) = static_cast<int>(thread()); }
void read_then_write(void* const* cells) {
  write(thread()) = 1;
  tile::barrier();
  out(cells)[thread()] = read((thread() + 1) % count());
  if (argument(cells)) tile::barrier();
  write(thread()) = static_cast<int>(thread()) + 2;
}
void atomic_updates(void* const* cells) {
  if (thread() == 0) write(0) = 0;
  tile::barrier();
  tile::memory<tile::kAtomic>(shared(), 0, 1, tile::Place<1>{{0}, {1}}) += 1;
  if (argument(cells)) tile::barrier();
  out(cells)[thread()] = read(0);
}
void blocks_write_one_element(void* const* cells) {
  if (thread() == 0) global(out(cells), argument(cells) ? 0 : tile::block.index.x) = tile::block.index.x;
}
void unwritten_shared(void* const* cells) { out(cells)[0] = read(thread()); }
void unwritten_local(void* const* cells) {
  float x[4];
  tile::Written written[4] = {};
  tile::local<tile::kWrite>(x, written, 1, 5, tile::Place<1>{{1}, {4}}) = 1.0f;
  const int64_t at = argument(cells);
  out(cells)[0] = static_cast<int64_t>(tile::local<tile::kRead>(x, written, at, 5, tile::Place<1>{{at}, {4}}));
}
// An operation writes x[0:2]: it is begun, continued with, and ends before x[0] is used (1), or after it (2), or x[0] is
// written while it is under way (3).
void local_under_way(void* const* cells) {
  float x[4];
  tile::Written written[4] = {};
  const auto at = [&](int64_t index) { return tile::Place<1>{{index}, {4}}; };
  tile::local<tile::kBegin, 2>(x, written, 0, 5, at(0));
  const tile::Begun begun = tile::begun;
  begun.mark(tile::Written::kUnderWay);
  tile::local<tile::kContinue, 2>(x, written, 0, 5, at(0));
  if (argument(cells) == 1) begun.mark(tile::Written::kDone);
  if (argument(cells) == 3) tile::local<tile::kWrite>(x, written, 0, 5, at(0)) = 1.0f;
  out(cells)[0] = static_cast<int64_t>(tile::local<tile::kRead>(x, written, 0, 5, at(0)));
}
void second_axis(void* const*) {
  const int64_t i = thread() / 4, j = thread() % 4 + 1;
  tile::memory<tile::kWrite>(shared(), i * 4 + j, 1, tile::Place<2>{{i, j}, {8, 4}}) = 1;
}
void misaligned(void* const*) {
  tile::memory<tile::kWrite, 4>(shared(), 2, 1, tile::Place<1>{{2}, {64}}) = 1;
}
void divergent_barrier(void* const* cells) {
  if (thread() < count() / 2) {
    tile::here(3);
    tile::barrier();
  }
  if (!argument(cells)) return;
  tile::here(4);
  tile::barrier();
}
// A meeting of one warp orders its lanes, and nobody else.
void warps_apart(void* const* cells) {
  write(thread()) = 1;
  tile::meet_warp(all(), true);
  const unsigned distance = static_cast<unsigned>(argument(cells));
  out(cells)[thread()] = read(thread() ^ distance);
}
// The first warp meets the second, then the second the third: the third sees what the first wrote.
void chain(void* const* cells) {
  const unsigned warp = thread() / 32;
  if (warp == 0) write(thread()) = 1;
  if (warp <= 1) tile::named_barrier(1, 64);
  if (warp >= 1) tile::named_barrier(2, 64);
  if (warp == 2) out(cells)[thread()] = argument(cells) ? read(thread() - 64) : 0;
}

// The block that is last adds up what all have left. `out` begins with -1.
void last_block_sums(void* const* cells) {
  int64_t* const a = out(cells);
  if (thread() == 0) {
    global(a, 1 + tile::block.index.x) = 5;
    const tile::Place<1> first{{0}, {64}};
    int64_t& count = argument(cells) ? tile::memory<tile::kOrdered>(a, 0, 0, first) : tile::memory<tile::kAtomic>(a, 0, 0, first);
    shared()[0] = ++count == int64_t(tile::block.grid.x) - 1;
  }
  tile::barrier();
  if (!shared()[0] || thread() != 1) return;
  int64_t sum = 0;
  for (int64_t at = 1; at <= int64_t(tile::block.grid.x); ++at)
    sum += tile::memory<tile::kRead>(a, at, 0, tile::Place<1>{{at}, {64}});
  global(a, 63) = sum;
}
// Thread 0 publishes with an ordered update, thread 40 takes it over.
void published_within_a_block(void* const* cells) {
  const tile::Place<1> first{{0}, {1}};
  int* const flag = shared() + 512;
  if (thread() == 0) tile::memory<tile::kWrite>(flag, 0, 1, first) = 0;
  tile::barrier();
  if (thread() == 0) write(5) = 9;
  if (thread() != 0 && thread() != 40) return;
  if (argument(cells)) tile::memory<tile::kOrdered>(flag, 0, 1, first) += 1;
  else tile::memory<tile::kAtomic>(flag, 0, 1, first) += 1;
  if (thread() == 40) out(cells)[0] = read(5);
}

using Kernel = void (*)(void* const*);
struct Entry {
  const char* name;
  Kernel kernel;
};
#define ENTRY(name) {#name, name}
const Entry kKernels[] = {
    ENTRY(neighbours), ENTRY(accumulate), ENTRY(count_blocks), ENTRY(thread_indices), ENTRY(poisoned), ENTRY(deep_stack),
    ENTRY(leave_early), ENTRY(half_at_named), ENTRY(producers_and_consumers), ENTRY(exchange_xor), ENTRY(ballot_odd),
    ENTRY(match_thirds), ENTRY(reduce_sum), ENTRY(two_masks), ENTRY(outside_of_mask), ENTRY(missing_lane),
    ENTRY(dropped_barrier), ENTRY(same_value), ENTRY(other_value), ENTRY(read_then_write), ENTRY(atomic_updates),
    ENTRY(blocks_write_one_element), ENTRY(unwritten_shared), ENTRY(unwritten_local), ENTRY(local_under_way), ENTRY(second_axis),
    ENTRY(misaligned), ENTRY(divergent_barrier), ENTRY(warps_apart), ENTRY(chain),
    ENTRY(last_block_sums), ENTRY(published_within_a_block),
};

}  // namespace

extern "C" const tile::Failure* failure() { return &tile::failure; }

extern "C" int run(const char* name, const unsigned* grid, const unsigned* block, unsigned warp, unsigned checked,
                   int64_t* out, int64_t argument) {
  void* cells[] = {out, &argument};
  for (const Entry& entry : kKernels)
    if (strcmp(entry.name, name) == 0)
      return tile::run({{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, warp, 4096, 512 * 1024, kSites, checked,
                        entry.kernel, cells});
  return -1;
}

extern "C" void encode(int format, int64_t n, const float* values, uint16_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = format == 0 ? tile::Half::encode(values[i]) : tile::BFloat16::encode(values[i]);
}
extern "C" void decode(int format, int64_t n, const uint16_t* codes, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = format == 0 ? tile::Half::decode(codes[i]) : tile::BFloat16::decode(codes[i]);
}
template <typename T>
static void multiply_add(int64_t n, const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* result) {
  for (int64_t i = 0; i < n; ++i) {
    T x, y, z;
    x.bits = a[i], y.bits = b[i], z.bits = c[i];
    result[i] = T(x * y + z).bits;
  }
}
extern "C" void multiply_add(int format, int64_t n, const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* result) {
  format == 0 ? multiply_add<tile::Half>(n, a, b, c, result) : multiply_add<tile::BFloat16>(n, a, b, c, result);
}
