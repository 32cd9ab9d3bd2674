// Matrix instructions on the host: what `tile_cuda/instructions` prints for emulated execution.
//
// Products are exact; sums are float32 (int32, float64), k upwards, one rounding an instruction where D is narrower.
#pragma once

#include <stdlib.h>

#include "tile_checks.h"

namespace tile {

template <typename To, typename From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the types have different sizes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Formats of elements, by PTX's names. `value` of the bits, and `bits` of a value for those that results have.
struct F64 {
  using Bits = uint64_t;
  using Value = double;
  static constexpr unsigned kBits = 64;
  static double value(uint64_t bits) { return bit_cast<double>(bits); }
  static uint64_t bits(double value) { return bit_cast<uint64_t>(value); }
};
struct F32 {
  using Bits = uint32_t;
  using Value = float;
  static constexpr unsigned kBits = 32;
  static float value(uint32_t bits) { return bit_cast<float>(bits); }
  static uint32_t bits(float value) { return bit_cast<uint32_t>(value); }
};
// The low 13 bits are not looked at.
struct TF32 {
  using Bits = uint32_t;
  using Value = float;
  static constexpr unsigned kBits = 32;
  static float value(uint32_t bits) { return F32::value(bits & 0xffffe000u); }
};
// To nearest, halves away from zero; NaN and infinities as they are.
inline float round_tf32(float value) {
  const uint32_t bits = F32::bits(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? value : F32::value((bits + 0x1000u) & 0xffffe000u);
}
template <int E, int M>
struct Narrow {
  using Bits = uint16_t;
  using Value = float;
  static constexpr unsigned kBits = 16;
  static float value(uint16_t bits) { return SmallFloat<E, M>::decode(bits); }
  static uint16_t bits(float value) { return SmallFloat<E, M>::encode(value); }
};
using F16 = Narrow<5, 10>;
using BF16 = Narrow<8, 7>;
struct E5M2 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) { return SmallFloat<5, 2>::decode(bits); }
};
// No infinities: the codes above 448 but the last are values, and the last is NaN.
struct E4M3 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) {
    const unsigned magnitude = bits & 0x7f;
    if (magnitude == 0x7f) return NAN;
    const float found = magnitude < 0x78 ? SmallFloat<4, 3>::decode(static_cast<uint16_t>(magnitude))
                                         : 256.0f + 32.0f * static_cast<float>(magnitude - 0x78);
    return bits & 0x80 ? -found : found;
  }
};
// A float of less than 8 bits without infinity and NaN, whose lowest bit is bit `Low` of a byte.
template <int E, int M, int Low>
struct Tiny {
  using Bits = uint8_t;
  using Value = float;
  static constexpr unsigned kBits = 8;
  static float value(uint8_t bits) {
    const unsigned code = bits >> Low, exponent = code >> M & ((1u << E) - 1), mantissa = code & ((1u << M) - 1);
    constexpr int bias = (1 << (E - 1)) - 1;
    const float found = ldexpf(static_cast<float>(exponent ? mantissa + (1u << M) : mantissa),
                               static_cast<int>(exponent ? exponent : 1) - bias - M);
    return code >> (E + M) & 1 ? -found : found;
  }
};
using E3M2 = Tiny<3, 2, 0>;
using E2M3 = Tiny<2, 3, 0>;
using E2M1 = Tiny<2, 1, 2>;
template <typename T>
struct Integer {
  using Bits = T;
  using Value = int32_t;
  static constexpr unsigned kBits = 8 * sizeof(T);
  static int32_t value(T bits) { return bits; }
  static T bits(int32_t value) { return static_cast<T>(value); }
};
using S32 = Integer<int32_t>;
using S8 = Integer<int8_t>;
using U8 = Integer<uint8_t>;
struct S4 : Integer<uint8_t> {
  static constexpr unsigned kBits = 4;
  static int32_t value(uint8_t bits) { return (bits ^ 8) - 8; }
};
struct U4 : Integer<uint8_t> {
  static constexpr unsigned kBits = 4;
};

// Element `at` of packed elements.
template <typename F>
typename F::Value packed(const void* base, size_t at) {
  typename F::Bits bits;
  if (F::kBits >= 8) {
    memcpy(&bits, static_cast<const char*>(base) + at * sizeof(bits), sizeof(bits));
  } else {
    bits = static_cast<typename F::Bits>(static_cast<const uint8_t*>(base)[at / 2] >> 4 * (at % 2) & 0xf);
  }
  return F::value(bits);
}
template <typename F>
void pack(void* base, size_t at, typename F::Value value) {
  const typename F::Bits bits = F::bits(value);
  memcpy(static_cast<char*>(base) + at * sizeof(bits), &bits, sizeof(bits));
}

constexpr uint64_t kWarp = 0xffffffffu;

// `row()` is the address of the row that this lane gives; lanes beyond 8 * Count give none.
template <unsigned Count, bool Trans, typename Row>
void ldmatrix(void* registers, Row row) {
  const unsigned lane = block.lane();
  const void* const own = lane < 8 * Count ? row() : nullptr;
  together(kWarp, own, [=](auto rows) {
    auto* to = static_cast<uint16_t*>(registers);
    for (unsigned at = 0; at < 2 * Count; ++at) {
      const unsigned major = lane / 4, minor = 2 * (lane % 4) + at % 2;
      const unsigned r = Trans ? minor : major, c = Trans ? major : minor;
      memcpy(to + at, static_cast<const uint16_t*>(rows(8 * (at / 2) + r)) + c, sizeof(uint16_t));
    }
    return 0;
  });
}
template <unsigned Count, bool Trans, typename Row>
void stmatrix(Row row, const void* registers) {
  const unsigned lane = block.lane();
  together(kWarp, registers, [=](auto held) {
    if (lane >= 8 * Count) return 0;
    auto* to = static_cast<uint16_t*>(static_cast<void*>(row()));
    const unsigned r = lane % 8;
    for (unsigned c = 0; c < 8; ++c) {
      const unsigned major = Trans ? c : r, minor = Trans ? r : c;
      const auto* from = static_cast<const uint16_t*>(held(4 * major + minor / 2)) + 2 * (lane / 8) + minor % 2;
      memcpy(to + c, from, sizeof(uint16_t));
    }
    return 0;
  });
}

// Elements of one row or column that a register of 32 (64) bits holds.
template <typename F>
constexpr unsigned kPacked = F::kBits >= 32 ? 1 : 32 / F::kBits;

template <unsigned M, unsigned K, typename D, typename A, typename B>
void mma(void* d, const void* a, const void* b) {
  constexpr unsigned P = kPacked<A>, kA = M * K / 32, kB = K * 8 / 32, kD = M * 8 / 32;
  using Value = typename D::Value;
  struct Operands {
    Value a[kA], b[kB];
  } own;
  for (unsigned at = 0; at < kA; ++at) own.a[at] = packed<A>(a, at);
  for (unsigned at = 0; at < kB; ++at) own.b[at] = packed<B>(b, at);
  const unsigned lane = block.lane();
  together(kWarp, static_cast<const Operands*>(&own), [=](auto held) {
    for (unsigned at = 0; at < kD; ++at) {
      const unsigned row = lane / 4, column = 2 * (lane % 4) + at % 2;
      Value sum = packed<D>(d, at);
      for (unsigned k = 0; k < K; ++k) {
        // k = packed element + P * lane of the four + 4 * P * register
        const unsigned element = k % P, quarter = k / P % 4, group = k / (4 * P);
        const Value left = held(4 * row + quarter)->a[element + P * (at / 2 + M / 8 * group)];
        const Value right = held(4 * column + quarter)->b[element + P * group];
        sum += left * right;
      }
      pack<D>(d, at, sum);
    }
    return 0;
  });
}

// -- Products of a warpgroup, which are in flight until a wait lets their group pass.

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

  explicit Descriptor(uint64_t bits)
      : start(static_cast<unsigned>(bits & 0x3fff) << 4),
        leading(static_cast<unsigned>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<unsigned>(bits >> 32 & 0x3fff) << 4) {
    constexpr unsigned widths[] = {16, 128, 64, 32};
    width = widths[bits >> 62];
  }

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
  Begun begun[kWarpgroup];
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
// Not `inline`: that would be one variable of all kernels in the process.
static Warpgroup* const warpgroups = new Warpgroup[kMaxThreads / kWarpgroup];

inline Warpgroup& warpgroup() {
  Warpgroup& own = warpgroups[block.self->linear / kWarpgroup];
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
                          unsigned a_bytes, uint64_t b, bool adds) {
  Warpgroup& own = warpgroup();
  const unsigned self = block.self->linear % kWarpgroup, number = own.issued[self]++;
  if (number == own.begun) own.append(new Product(run, note, a, b, own.begun++, bytes, a_bytes));
  // The others meet in this one, so it is the newest.
  Product& product = *own.newest;
  if (product.run != run || product.a != a || product.b != b)
    stop(Fault::kInstruction, "begins another wgmma than the other threads of its warpgroup");
  product.d[self] = d, product.adds[self] = adds, product.begun[self] = begun;
  begun = Begun{};
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
    own.taken[self] = passed.number + 1;
    const bool is_used = passed.heir != nullptr && passed.heir->number < own.issued[self];
    if (!is_used) give_result(passed, self);
    end_reads(passed.warpgroup, passed.time);
    if (++passed.taken == kWarpgroup) own.drop_oldest();
  }
}
inline void pin(const void*) {}
inline void hold(float) {}

template <unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, int SignA, int SignB>
struct Wgmma {
  using Value = typename D::Value;
  static constexpr unsigned kD = N / 2, kBytes = kD * D::kBits / 8, kA = 64 * K / kWarpgroup, kABytes = kA * A::kBits / 8;

  static Value element_of_a(const Product& product, const Descriptor& from, unsigned row, unsigned k) {
    if (product.a_images == nullptr) return packed<A>(tile_shared + from.address<TransA>(row, k, A::kBits / 8), 0);
    constexpr unsigned P = kPacked<A>;
    const unsigned thread = row / 16 * 32 + row % 8 * 4 + k / P % 4;
    return packed<A>(product.a_images + thread * kABytes, k % P + P * (row / 8 % 2) + 2 * P * (k / (4 * P)));
  }

  template <bool Trans>
  static void note_operand(const Product& product, const Descriptor& from, unsigned itemsize, unsigned first, unsigned count) {
    constexpr unsigned kUnit = 16;
    const unsigned step = kUnit / itemsize, along_major = Trans ? step : 1, along_k = Trans ? 1 : step;
    for (unsigned major = first; major < first + count; major += along_major)
      for (unsigned k = 0; k < K; k += along_k)
        read_beside(product.warpgroup, product.time, tile_shared + from.address<Trans>(major, k, itemsize), kUnit);
  }
  static void note(const Product& product, unsigned warp) {
    if (product.a_images == nullptr)
      note_operand<TransA>(product, Descriptor(product.a), A::kBits / 8, 16 * warp, 16);
    note_operand<TransB>(product, Descriptor(product.b), B::kBits / 8, 0, N);
  }

  static void run(Product& product) {
    static Value a[64][K], b[N][K];
    const Descriptor from_a(product.a), from_b(product.b);
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned k = 0; k < K; ++k) a[row][k] = SignA * element_of_a(product, from_a, row, k);
    for (unsigned n = 0; n < N; ++n)
      for (unsigned k = 0; k < K; ++k)
        b[n][k] = SignB * packed<B>(tile_shared + from_b.address<TransB>(n, k, B::kBits / 8), 0);
    for (unsigned thread = 0; thread < kWarpgroup; ++thread) {
      for (unsigned at = 0; at < kD; ++at) {
        const Value* const row = a[thread / 32 * 16 + thread % 32 / 4 + at / 2 % 2 * 8];
        const Value* const column = b[at / 4 * 8 + thread % 4 * 2 + at % 2];
        Value sum = packed<D>(product.image(thread), at);
        for (unsigned k = 0; k < K; ++k) sum += row[k] * column[k];
        pack<D>(product.image(thread), at, sum);
      }
    }
  }
};
template <unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, int SignA, int SignB>
void wgmma_ss(void* d, uint64_t a, uint64_t b, int accumulate) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, a, nullptr, 0, b, accumulate != 0);
}
template <unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, int SignA, int SignB>
void wgmma_rs(void* d, const void* a, uint64_t b, int accumulate) {
  using Self = Wgmma<N, K, D, A, B, TransA, TransB, SignA, SignB>;
  begin_product(&Self::run, &Self::note, d, Self::kBytes, 0, a, Self::kABytes, b, accumulate != 0);
}

}  // namespace tile
