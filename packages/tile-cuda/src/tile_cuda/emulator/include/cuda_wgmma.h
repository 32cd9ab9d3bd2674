// Products of a warpgroup on the host: in flight until a wait lets their group pass.
#pragma once

#include <stdlib.h>

#include "cuda_matrix.h"

namespace tile {

constexpr unsigned kWarpgroup = 128;
constexpr unsigned kMostGroups = 8;
constexpr unsigned kSharedMask = 0x3ffff;

inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - tile_shared);
}
template <uint64_t Fields>
uint64_t smem_descriptor(const void* tile) {
  return Fields | (shared_address(tile) & kSharedMask) >> 4;
}
inline uint64_t descriptor_advance(uint64_t descriptor, int bytes) {
  return descriptor + (static_cast<unsigned>(bytes) >> 4);
}

// Where an operand is in shared memory. `major` counts the rows of A or the columns of B.
struct Descriptor {
  unsigned start, leading, stride, width;

  Descriptor(uint64_t bits, unsigned width)
      : start(static_cast<unsigned>(bits & 0x3fff) << 4),
        leading(static_cast<unsigned>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<unsigned>(bits >> 32 & 0x3fff) << 4),
        width(width) {}
  // Of wgmma.
  explicit Descriptor(uint64_t bits) : Descriptor(bits, kWidths[bits >> 62]) {}
  static constexpr unsigned kWidths[] = {16, 128, 64, 32};

  template <bool Trans>
  unsigned address(unsigned major, unsigned k, unsigned itemsize) const {
    const unsigned byte = (Trans ? major : k) * itemsize, line = Trans ? k : major;
    const bool far_lines_lead = Trans && width == 16;
    const unsigned next_lines = far_lines_lead ? leading : stride, next_bytes = far_lines_lead ? stride : leading;
    const unsigned offset = line / 8 * next_lines + line % 8 * width + byte / width * next_bytes + byte % width;
    const unsigned at = (start + offset) & kSharedMask;
    return at ^ (at >> 7 & (width / 16 - 1)) << 4;
  }
};

// One wgmma. `images` holds the registers of D of every thread: what they begin with, then the result.
struct Product {
  using Run = void (*)(Product&);
  using Note = void (*)(const Product&, unsigned warp);
  Run run;
  Note note;  // tells the checks what a warp's part reads
  uint64_t a, b;
  unsigned number, bytes, a_bytes, warpgroup;
  uint32_t time = begin_reads();
  Product* younger = nullptr;
  Product* heir = nullptr;  // adds to the result of this one
  bool done = false;
  unsigned taken = 0;
  void* d[kWarpgroup] = {};
  bool adds[kWarpgroup] = {};
  uint32_t metadata[kWarpgroup] = {};
  Begun begun[kWarpgroup];
  Lent lent[kWarpgroup];
  unsigned char *images, *a_images;

  Product(Run run, Note note, uint64_t a, uint64_t b, unsigned number, unsigned bytes, unsigned a_bytes)
      : run(run), note(note), a(a), b(b), number(number), bytes(bytes), a_bytes(a_bytes),
        warpgroup(block.self->linear / kWarpgroup) {
    images = static_cast<unsigned char*>(calloc(kWarpgroup, bytes));
    a_images = a_bytes ? static_cast<unsigned char*>(calloc(kWarpgroup, a_bytes)) : nullptr;
  }
  ~Product() { free(images), free(a_images); }
  unsigned char* image(unsigned thread) const { return images + thread * bytes; }

  void finish() {
    if (done) return;
    run(*this);
    done = true;
    if (heir == nullptr) return;
    for (unsigned thread = 0; thread < kWarpgroup; ++thread)
      if (heir->adds[thread]) memcpy(heir->image(thread), image(thread), bytes);
  }
};

struct Warpgroup {
  Meeting meeting;
  uint64_t block = 0;
  Product *oldest = nullptr, *newest = nullptr;  // in flight for some thread
  unsigned begun = 0;
  // By thread: products begun, products whose results it has, and products begun when a group ended, the last first.
  unsigned issued[kWarpgroup] = {}, taken[kWarpgroup] = {}, ends[kWarpgroup][kMostGroups] = {};

  Product& append(Product* made) {
    (newest == nullptr ? oldest : newest->younger) = made;
    return *(newest = made);
  }
  void drop_oldest() {
    Product* const dropped = oldest;
    oldest = dropped->younger;
    if (oldest == nullptr) newest = nullptr;
    delete dropped;
  }
};
// Blocks of a cluster run in turns, and their serial numbers follow each other.
constexpr unsigned kBlocksOfCluster = 16, kWarpgroups = kMaxThreads / kWarpgroup;
// Not `inline`: that would be one variable of all kernels in the process.
static Warpgroup* const warpgroups = new Warpgroup[kBlocksOfCluster * kWarpgroups];

inline Warpgroup& warpgroup() {
  Warpgroup& own = warpgroups[block.serial % kBlocksOfCluster * kWarpgroups + block.self->linear / kWarpgroup];
  if (own.block != block.serial) {
    while (own.oldest != nullptr) own.drop_oldest();
    own = Warpgroup{};
    own.block = block.serial;
  }
  return own;
}

// The last product in flight, of this thread and before `number`, that has its registers at `d`.
inline Product* product_of(Warpgroup& own, unsigned self, unsigned number, const Product& wanted) {
  const auto* const first = static_cast<unsigned char*>(wanted.d[self]);
  Product* found = nullptr;
  for (Product* other = own.oldest; other != nullptr && other->number < number; other = other->younger) {
    if (other->number < own.taken[self]) continue;
    const auto* const begin = static_cast<unsigned char*>(other->d[self]);
    if (begin >= first + wanted.bytes || first >= begin + other->bytes) continue;
    if (begin != first || other->run != wanted.run)
      stop(Fault::kInstruction, "begins a wgmma on registers that one of another shape, in flight, has");
    found = other;
  }
  return found;
}

// The registers of a product in flight hold no value.
constexpr int kNoValue = 0xff;
inline void give_result(Product& product, unsigned self) {
  auto* const d = static_cast<unsigned char*>(product.d[self]);
  for (unsigned at = 0; at < product.bytes; ++at)
    if (d[at] != kNoValue) stop(Fault::kInstruction, "has written registers of a wgmma before it waited for it");
  memcpy(d, product.image(self), product.bytes);
  product.begun[self].mark(Written::kDone);
}

inline void begin_product(Product::Run run, Product::Note note, void* d, unsigned bytes, uint64_t a, const void* a_registers,
                          unsigned a_bytes, uint64_t b, bool adds, uint32_t metadata = 0) {
  Warpgroup& own = warpgroup();
  const unsigned self = block.self->linear % kWarpgroup, number = own.issued[self]++;
  if (number == own.begun) own.append(new Product(run, note, a, b, own.begun++, bytes, a_bytes));
  // The others meet in this one, so it is the newest.
  Product& product = *own.newest;
  if (product.run != run || product.a != a || product.b != b)
    stop(Fault::kInstruction, "begins another wgmma than the other threads of its warpgroup");
  product.d[self] = d, product.adds[self] = adds, product.begun[self] = begun;
  product.metadata[self] = metadata;
  begun = Begun{};
  lend(product.lent[self] = lent);
  lent = Lent{};
  if (a_bytes) memcpy(product.a_images + self * a_bytes, a_registers, a_bytes);
  Product* const before = product_of(own, self, number, product);
  if (adds && (before == nullptr || before->done))
    memcpy(product.image(self), before == nullptr ? d : before->image(self), bytes);
  if (before != nullptr) before->heir = &product;
  memset(d, kNoValue, bytes);
  product.begun[self].mark(Written::kUnderWay);
  if (product.time != 0 && self % 32 == 0) note(product, self / 32);
  own.meeting.name = "the threads of its warpgroup, at a wgmma";
  own.meeting.expected = kWarpgroup;
  own.meeting.orders_memory = false;
  meet(own.meeting);
}

inline void wgmma_fence() {}
inline void wgmma_commit() {
  Warpgroup& own = warpgroup();
  const unsigned self = block.self->linear % kWarpgroup;
  unsigned* const ends = own.ends[self];
  memmove(ends + 1, ends, (kMostGroups - 1) * sizeof(unsigned));
  ends[0] = own.issued[self];
}
template <unsigned Groups>
void wgmma_wait() {
  static_assert(Groups < kMostGroups, "more groups than are told apart");
  Warpgroup& own = warpgroup();
  const unsigned self = block.self->linear % kWarpgroup, limit = own.ends[self][Groups];
  for (Product* product = own.oldest; product != nullptr && product->number < limit;) {
    Product& passed = *product;
    product = passed.younger;
    if (passed.number < own.taken[self]) continue;
    passed.finish();
    give_back(passed.lent[self]);
    own.taken[self] = passed.number + 1;
    const bool is_used = passed.heir != nullptr && passed.heir->number < own.issued[self];
    if (!is_used) give_result(passed, self);
    end_reads(passed.warpgroup, passed.time);
    if (++passed.taken == kWarpgroup) own.drop_oldest();
  }
}
inline void pin(const void*) {}
inline void hold(float) {}
inline void assume(bool) {}
inline int uniform(int value) { return value; }

// With `Selector` from 0 on, A is sparse.
template <unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, int SignA, int SignB,
          int Selector = -1>
struct Wgmma {
  using Value = typename D::Value;
  static constexpr unsigned kDepth = Selector < 0 ? K : K / 2;  // columns of A
  static constexpr unsigned kD = N / 2, kBytes = kD * D::kBits / 8;
  static constexpr unsigned kA = 64 * kDepth / kWarpgroup, kABytes = kA * A::kBits / 8;

  static Value element_of_a(const Product& product, const Descriptor& from, unsigned row, unsigned k) {
    if (product.a_images == nullptr) return packed<A>(tile_shared + from.address<TransA>(row, k, A::kBits / 8), 0);
    constexpr unsigned P = kPacked<A>;
    const unsigned thread = row / 16 * 32 + row % 8 * 4 + k / P % 4;
    return packed<A>(product.a_images + thread * kABytes, k % P + P * (row / 8 % 2) + 2 * P * (k / (4 * P)));
  }

  template <bool Trans>
  static void note_operand(const Product& product, const Descriptor& from, unsigned itemsize, unsigned depth,
                           unsigned first, unsigned count) {
    constexpr unsigned kUnit = 16;
    const unsigned step = kUnit / itemsize, along_major = Trans ? step : 1, along_k = Trans ? 1 : step;
    for (unsigned major = first; major < first + count; major += along_major)
      for (unsigned k = 0; k < depth; k += along_k)
        read_beside(product.warpgroup, product.time, tile_shared + from.address<Trans>(major, k, itemsize), kUnit);
  }
  static void note(const Product& product, unsigned warp) {
    if (product.a_images == nullptr)
      note_operand<TransA>(product, Descriptor(product.a), A::kBits / 8, kDepth, 16 * warp, 16);
    note_operand<TransB>(product, Descriptor(product.b), B::kBits / 8, K, 0, N);
  }

  // The k of column `j` of A in `row`.
  static unsigned depth_of(const Product& product, unsigned row, unsigned j) {
    if constexpr (Selector < 0) {
      return j;
    } else {
      const auto word = [&](unsigned lane) { return product.metadata[row / 16 * 32 + lane]; };
      return Sparse<A, K, Selector>::column(row % 16, j, word);
    }
  }

  static void run(Product& product) {
    static Value a[64][kDepth], b[N][K];
    static unsigned depths[64][kDepth];  // of a sparse A
    const Descriptor from_a(product.a), from_b(product.b);
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned j = 0; j < kDepth; ++j) {
        a[row][j] = SignA * element_of_a(product, from_a, row, j);
        if (Selector >= 0) depths[row][j] = depth_of(product, row, j);
      }
    for (unsigned n = 0; n < N; ++n)
      for (unsigned k = 0; k < K; ++k)
        b[n][k] = SignB * packed<B>(tile_shared + from_b.address<TransB>(n, k, B::kBits / 8), 0);
    for (unsigned thread = 0; thread < kWarpgroup; ++thread) {
      for (unsigned at = 0; at < kD; ++at) {
        const unsigned row = thread / 32 * 16 + thread % 32 / 4 + at / 2 % 2 * 8;
        const Value* const column = b[at / 4 * 8 + thread % 4 * 2 + at % 2];
        Value sum = packed<D>(product.image(thread), at);
        for (unsigned j = 0; j < kDepth; ++j)
          sum = wrapping_sum(sum, a[row][j] * column[Selector < 0 ? j : depths[row][j]]);
        pack<D>(product.image(thread), at, sum);
      }
    }
  }
};
#define TILE_WGMMA unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, int SignA, int SignB
template <TILE_WGMMA>
void wgmma_ss(void* d, uint64_t a, uint64_t b, int accumulate) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, a, nullptr, 0, b, accumulate != 0);
}
template <TILE_WGMMA>
void wgmma_rs(void* d, const void* a, uint64_t b, int accumulate) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, 0, a, Self::kABytes, b, accumulate != 0);
}
template <TILE_WGMMA, int Selector>
void wgmma_sp_ss(void* d, uint64_t a, uint64_t b, int accumulate, uint32_t metadata) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB, Selector>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, a, nullptr, 0, b, accumulate != 0, metadata);
}
template <TILE_WGMMA, int Selector>
void wgmma_sp_rs(void* d, const void* a, uint64_t b, int accumulate, uint32_t metadata) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB, Selector>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, 0, a, Self::kABytes, b, accumulate != 0, metadata);
}
#undef TILE_WGMMA

}  // namespace tile
