// Tensor memory and its products on the host. A product is done when a wait for the barrier passes to which it was committed;
// loads and stores are done at once.
#pragma once

#include "cuda_wgmma.h"

namespace tile {

constexpr unsigned kTensorLanes = 128, kTensorColumns = 512, kTensorUnit = 32;  // columns that are taken together
constexpr unsigned kTensorReads = kWarpgroups;  // their number among those that read beside the threads

struct TensorProduct {
  void (*run)(const TensorProduct&);
  uint32_t d;
  uint64_t a, b;
  bool adds;
  TensorProduct* next;
  uint32_t descriptor, a_factors, b_factors;  // of block-scaled products
};

// With checks: who used a column of a quarter of the lanes last. A product by its time; a thread by how many loads or stores
// it had issued, and how often it had met others then.
struct TensorMark {
  uint32_t time = 0;  // of the product that wrote it, 0 for none
  int thread = -1;    // that moved it since
  bool is_load = false;
  uint32_t number = 0, clock = 0, event = 0;
};
// What a thread has waited for, and has ordered before the barriers that follow, or after those that it has passed.
struct TensorFence {
  uint32_t loads, stores, clock;
};
// A load that is not waited for.
struct HeldLoad {
  void* to;
  unsigned count;
  uint32_t words[128];
  Begun begun;
  HeldLoad* next;
};
constexpr unsigned kKeptFences = 16, kKeptTimes = 64;
struct TensorThread {
  uint32_t loads = 0, stores = 0, waited_loads = 0, waited_stores = 0;
  uint32_t after_time = 0, after_event = 0;
  uint32_t fences = 0;
  TensorFence before[kKeptFences];  // the last ones
  HeldLoad* held = nullptr;
};

struct TensorMemory {
  uint64_t block = 0;
  uint32_t events = 0;
  TensorMark marks[kTensorLanes / 32][kTensorColumns];
  TensorThread threads[kMaxThreads];
  uint32_t products = 0, times[kKeptTimes];  // of the last products
  uint32_t words[kTensorLanes][kTensorColumns];
  bool taken[kTensorColumns / kTensorUnit] = {};
  TensorProduct *oldest = nullptr, *newest = nullptr;
  uint64_t begun = 0, ended = 0;
  uint32_t time = 0;

  void end_oldest(bool is_run) {
    TensorProduct* const ended_one = oldest;
    if (is_run) ended_one->run(*ended_one);
    oldest = ended_one->next;
    if (oldest == nullptr) newest = nullptr;
    delete ended_one;
    ++ended;
  }
};
static TensorMemory* tensor_memories[kBlocksOfCluster] = {};

inline TensorMemory& tensor_memory() {
  TensorMemory*& memory = tensor_memories[block.serial % kBlocksOfCluster];
  if (memory == nullptr) memory = new TensorMemory;
  TensorMemory& own = *memory;
  if (own.block != block.serial) {
    while (own.oldest != nullptr) own.end_oldest(false);
    own.block = block.serial, own.begun = own.ended = 0, own.time = 0;
    memset(own.taken, 0, sizeof(own.taken));
    own.events = own.products = 0;
    for (TensorThread& thread : own.threads) thread = TensorThread{};
    for (auto& quarter : own.marks)
      for (TensorMark& mark : quarter) mark = TensorMark{};
  }
  return own;
}

inline void begin_tensor_product(const TensorProduct& product) {
  TensorMemory& own = tensor_memory();
  if (own.time != 0) own.times[own.products++ % kKeptTimes] = own.time;
  auto* const made = new TensorProduct(product);
  (own.newest == nullptr ? own.oldest : own.newest->next) = made;
  own.newest = made;
  ++own.begun;
}

// `count` columns from `column` on of a lane, all of which have been taken.
inline uint32_t* tensor_words(unsigned lane, unsigned column, unsigned count) {
  TensorMemory& own = tensor_memory();
  if (column + count > kTensorColumns) stop(Fault::kInstruction, "uses columns beyond the end of tensor memory");
  for (unsigned unit = column / kTensorUnit; unit <= (column + count - 1) / kTensorUnit; ++unit)
    if (!own.taken[unit]) stop(Fault::kInstruction, "uses columns of tensor memory that are not taken");
  return &own.words[lane][column];
}

inline void require_given_back() {
  const TensorMemory* const own = tensor_memories[block.serial % kBlocksOfCluster];
  if (own == nullptr || own->block != block.serial) return;
  for (const bool taken : own->taken)
    if (taken) stop(Fault::kInstruction, "is the last of its block, which has not given back columns of tensor memory");
}

// A thread loads or stores the columns of its quarter.
inline void note_move(unsigned quarter, unsigned column, unsigned count, bool is_load) {
  if (!is_checked()) return;
  TensorMemory& own = tensor_memory();
  const unsigned self = block.self->linear;
  TensorThread& mine = own.threads[self];
  const uint32_t number = is_load ? ++mine.loads : ++mine.stores;
  ++own.events;
  for (unsigned at = column; at < column + count; ++at) {
    TensorMark& mark = own.marks[quarter][at];
    if (mark.time != 0 && !has_seen_end(kTensorReads, mark.time))
      stop(Fault::kRace, "moves columns of tensor memory that a product writes, which it does not wait for");
    if (mark.time > mine.after_time)
      stop(Fault::kFence, "moves columns of tensor memory that a product wrote: no fence follows the wait for it");
    if (mark.thread >= 0 && unsigned(mark.thread) / 32 != self / 32 && !(is_load && mark.is_load) &&
        !has_seen(unsigned(mark.thread), mark.clock))
      stop(Fault::kRace, "moves columns of tensor memory that another warp moves: no barrier is between them");
    mark.thread = int(self), mark.is_load = is_load, mark.number = number, mark.clock = clock_of_thread();
    mark.event = own.events;
  }
}
// A product, or a copy, of this thread uses columns of all lanes; one that writes them does so at `time`.
inline void note_product(unsigned column, unsigned count, uint32_t time) {
  if (!is_checked()) return;
  TensorMemory& own = tensor_memory();
  const unsigned self = block.self->linear;
  for (auto& quarter : own.marks)
    for (unsigned at = column; at < column + count && at < kTensorColumns; ++at) {
      TensorMark& mark = quarter[at];
      if (mark.thread >= 0) {
        const TensorThread& other = own.threads[unsigned(mark.thread)];
        const TensorFence* fence = nullptr;
        for (uint32_t at = other.fences > kKeptFences ? other.fences - kKeptFences : 0; at < other.fences; ++at) {
          const TensorFence& each = other.before[at % kKeptFences];
          if (fence == nullptr && (mark.is_load ? each.loads : each.stores) >= mark.number) fence = &each;
        }
        if (fence == nullptr)
          stop(Fault::kFence, "begins a product in columns that a thread moved: no wait and fence of that thread follow");
        if (unsigned(mark.thread) != self && !has_seen(unsigned(mark.thread), fence->clock))
          stop(Fault::kRace, "begins a product in columns that another thread moves: no barrier is between them");
        if (unsigned(mark.thread) != self && own.threads[self].after_event < mark.event)
          stop(Fault::kFence, "begins a product in columns that another thread moved: no fence follows the barrier");
      }
      if (time != 0) mark = TensorMark{}, mark.time = time;
    }
}

template <typename Address>
void tcgen05_alloc(Address address, int columns) {
  together(kWarp, 0, [&](auto) {
    if (block.lane() != 0) return 0;
    TensorMemory& own = tensor_memory();
    at_end_of_block = &require_given_back;
    const unsigned units = static_cast<unsigned>(columns) / kTensorUnit;
    unsigned first = 0, free = 0;
    for (unsigned unit = 0; unit < kTensorColumns / kTensorUnit && free < units; ++unit) {
      free = own.taken[unit] ? 0 : free + 1;
      first = unit + 1 - free;
    }
    if (free < units) stop(Fault::kInstruction, "waits for columns of tensor memory that nothing gives back");
    for (unsigned unit = first; unit < first + units; ++unit) own.taken[unit] = true;
    for (auto& lane : own.words) memset(lane + first * kTensorUnit, kNoValue, units * kTensorUnit * sizeof(uint32_t));
    auto* const to = address();
    const uint32_t found = first * kTensorUnit;
    memcpy(static_cast<void*>(to), &found, sizeof(found));
    return 0;
  });
}
inline void tcgen05_dealloc(uint32_t address, int columns) {
  together(kWarp, 0, [=](auto) {
    if (block.lane() != 0) return 0;
    const unsigned first = address & 0xffff, end = first + static_cast<unsigned>(columns);
    tensor_words(0, first, static_cast<unsigned>(columns));
    for (const auto& quarter : tensor_memory().marks)
      for (unsigned at = first; is_checked() && at < end; ++at) {
        const TensorMark& mark = quarter[at];
        if (mark.time != 0 && !has_seen_end(kTensorReads, mark.time))
          stop(Fault::kRace, "gives back columns of tensor memory that a product writes, which it does not wait for");
        if (mark.thread >= 0 && unsigned(mark.thread) != block.self->linear &&
            !has_seen(unsigned(mark.thread), mark.clock))
          stop(Fault::kRace, "gives back columns of tensor memory that another thread moves: no barrier is between them");
      }
    memset(tensor_memory().taken + (address & 0xffff) / kTensorUnit, 0, static_cast<unsigned>(columns) / kTensorUnit);
    return 0;
  });
}
inline void tcgen05_relinquish() {}

// The words of this thread's lane at `address`, whose lane is the first of the warp's. With `Upper` the upper half of a
// warp has the lanes of the lower one, and columns that are so many further on.
template <unsigned Upper>
uint32_t* own_tensor_words(uint32_t address, unsigned count, bool is_load) {
  const unsigned first = block.self->linear / 32 % 4 * 32, lane = block.lane();
  if (address >> 16 != first) stop(Fault::kInstruction, "moves lanes of tensor memory that are not those of its warp");
  const unsigned column = (address & 0xffff) + (Upper != 0 ? lane / 16 * Upper : 0);
  uint32_t* const words = tensor_words(first + (Upper != 0 ? lane % 16 : lane), column, count);
  note_move(address >> 21 & 3, column, count, is_load);
  return words;
}
template <unsigned Count, unsigned Upper>
void tcgen05_load(void* registers, uint32_t address) {
  const uint32_t* const words = own_tensor_words<Upper>(address, Count, true);
  begun.mark(Written::kUnderWay);
  TensorThread& mine = tensor_memory().threads[block.self->linear];
  auto* const held = new HeldLoad{registers, Count, {}, begun, mine.held};
  memcpy(held->words, words, Count * sizeof(uint32_t));
  mine.held = held;
  begun = Begun{};
  memset(registers, kNoValue, Count * sizeof(uint32_t));
}
template <unsigned Count, unsigned Upper>
void tcgen05_store(uint32_t address, const void* registers) {
  uint32_t* const words = own_tensor_words<Upper>(address, Count, false);
  memcpy(words, registers, Count * sizeof(uint32_t));
}
// What was loaded is there from here on.
inline void tcgen05_wait_loads() {
  TensorThread& mine = tensor_memory().threads[block.self->linear];
  while (HeldLoad* const load = mine.held) {
    const size_t bytes = load->count * sizeof(uint32_t);
    for (size_t at = 0; at < bytes; ++at)
      if (static_cast<unsigned char*>(load->to)[at] != kNoValue)
        stop(Fault::kInstruction, "has written registers that it loads from tensor memory before it waited for them");
    memcpy(load->to, load->words, bytes);
    load->begun.mark(Written::kDone);
    mine.held = load->next;
    delete load;
  }
  mine.waited_loads = mine.loads;
}
inline void tcgen05_wait_stores() {
  TensorThread& mine = tensor_memory().threads[block.self->linear];
  mine.waited_stores = mine.stores;
}
inline void tcgen05_fence_before() {
  if (!is_checked()) return;
  TensorThread& mine = tensor_memory().threads[block.self->linear];
  mine.before[mine.fences++ % kKeptFences] = {mine.waited_loads, mine.waited_stores, clock_of_thread()};
}
inline void tcgen05_fence_after() {
  if (!is_checked()) return;
  TensorMemory& own = tensor_memory();
  TensorThread& mine = own.threads[block.self->linear];
  mine.after_event = own.events;
  const uint32_t kept = own.products > kKeptTimes ? own.products - kKeptTimes : 0;
  for (uint32_t at = own.products; at-- > kept && own.times[at % kKeptTimes] > mine.after_time;)
    if (has_seen_end(kTensorReads, own.times[at % kKeptTimes])) {
      mine.after_time = own.times[at % kKeptTimes];
      break;
    }
}

inline Descriptor tensor_descriptor(uint64_t bits) {
  constexpr unsigned widths[] = {16, 0, 128, 0, 64, 0, 32, 0};
  if ((bits >> 46 & 7) != 1 || widths[bits >> 61] == 0)
    stop(Fault::kInstruction, "multiplies through something that is no descriptor for tensor memory's products");
  return Descriptor(bits, widths[bits >> 61]);
}

template <unsigned M, unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, bool AIsTensor,
          int SignA, int SignB>
struct TensorProductOf {
  using Value = typename D::Value;

  // Of 64 rows each warp has 16, in its first lanes.
  static unsigned lane_of(unsigned row) { return M == kTensorLanes ? row : row / 16 * 32 + row % 16; }

  template <typename F, bool Trans>
  static void note(uint64_t bits, unsigned count) {
    const Descriptor from = tensor_descriptor(bits);
    constexpr unsigned itemsize = F::kBits / 8, bytes = kCodeBits<F> < 8 ? 2 * kCodeBits<F> : 16;
    const unsigned step = 16 / itemsize, along_major = Trans ? step : 1, along_k = Trans ? 1 : step;
    for (unsigned major = 0; major < count; major += along_major)
      for (unsigned k = 0; k < K; k += along_k)
        read_beside(kTensorReads, tensor_memory().time, tile_shared + from.address<Trans>(major, k, itemsize), bytes);
  }

  // Element `k` of a line of a shared operand: codes of less than 8 bits lie packed in units of 16 bytes.
  template <typename F, bool Trans>
  static Value shared_element(const Descriptor& from, unsigned line, unsigned k) {
    if constexpr (kCodeBits<F> < 8) {
      const auto* const unit = reinterpret_cast<const unsigned char*>(tile_shared) + from.address<Trans>(line, k / 16 * 16, 1);
      return F::value(static_cast<uint8_t>(unit_code(unit, kCodeBits<F>, k % 16) << F::kLow));
    } else {
      return packed<F>(tile_shared + from.address<Trans>(line, k, F::kBits / 8), 0);
    }
  }

  static Value element_of_a(const TensorProduct& product, unsigned row, unsigned k) {
    if (AIsTensor) return packed<A>(&tensor_memory().words[row][product.a & 0xffff], k);
    return shared_element<A, TransA>(tensor_descriptor(product.a), row, k);
  }

  static void run(const TensorProduct& product) {
    static Value a[M][K], b[N][K];
    const Descriptor from_b = tensor_descriptor(product.b);
    for (unsigned row = 0; row < M; ++row)
      for (unsigned k = 0; k < K; ++k) a[row][k] = SignA * element_of_a(product, row, k);
    for (unsigned n = 0; n < N; ++n)
      for (unsigned k = 0; k < K; ++k)
        b[n][k] = SignB * shared_element<B, TransB>(from_b, n, k);
    for (unsigned row = 0; row < M; ++row)
      for (unsigned n = 0; n < N; ++n) {
        uint32_t* const d = &tensor_memory().words[lane_of(row)][(product.d & 0xffff) + n];
        Value sum = product.adds ? packed<D>(d, 0) : Value(0);
        for (unsigned k = 0; k < K; ++k) sum = wrapping_sum(sum, a[row][k] * b[n][k]);
        pack<D>(d, 0, sum);
      }
  }
};
template <unsigned M, unsigned N, unsigned K, typename D, typename A, typename B, bool TransA, bool TransB, bool AIsTensor,
          int SignA, int SignB>
void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, int accumulate) {
  using Self = TensorProductOf<M, N, K, D, A, B, TransA, TransB, AIsTensor, SignA, SignB>;
  TensorMemory& own = tensor_memory();
  own.time = begin_reads();
  if (own.time != 0 && !AIsTensor) Self::template note<A, TransA>(a, M);
  if (own.time != 0) Self::template note<B, TransB>(b, N);
  tensor_words(0, d & 0xffff, N);
  if (AIsTensor) tensor_words(0, a & 0xffff, K * A::kBits / 32), note_product(a & 0xffff, K * A::kBits / 32, 0);
  note_product(d & 0xffff, N, own.time);
  if (d >> 16 != 0) stop(Fault::kInstruction, "multiplies into lanes of tensor memory that do not begin at 0");
  begin_tensor_product({&Self::run, d, a, b, accumulate != 0, nullptr, 0, 0, 0});
}
// Block-scaled products. Element `k` of a line of an operand: floats of 6 and 4 bits lie packed in units of 16 bytes.
enum class NarrowFormat : unsigned { kE4M3 = 0, kE5M2 = 1, kE2M3 = 3, kE3M2 = 4, kE2M1 = 5 };
inline float narrow_value(NarrowFormat format, const unsigned char* unit, unsigned k) {
  const unsigned bits = format == NarrowFormat::kE2M1 ? 4 : format == NarrowFormat::kE2M3 || format == NarrowFormat::kE3M2 ? 6 : 8;
  const unsigned code = unit_code(unit, bits, k);
  const unsigned char byte = static_cast<unsigned char>(bits == 4 ? code << 2 : code);
  switch (format) {
    case NarrowFormat::kE4M3: return packed<E4M3>(&byte, 0);
    case NarrowFormat::kE5M2: return packed<E5M2>(&byte, 0);
    case NarrowFormat::kE2M3: return packed<E2M3>(&byte, 0);
    case NarrowFormat::kE3M2: return packed<E3M2>(&byte, 0);
    case NarrowFormat::kE2M1: return packed<E2M1>(&byte, 0);
  }
  stop(Fault::kInstruction, "multiplies floats of a format that there is not");
}

template <unsigned K, unsigned Factors>
struct ScaledProduct {
  // Those of K = 64 are floats of four bits, two in a byte.
  static constexpr unsigned kUnit = K == 64 ? 32 : 16;

  static NarrowFormat format(uint32_t descriptor, unsigned position) {
    return K == 64 ? NarrowFormat::kE2M1 : static_cast<NarrowFormat>(descriptor >> position & 7);
  }
  static float element(uint64_t bits, bool trans, NarrowFormat narrow, unsigned line, unsigned k) {
    const Descriptor from = tensor_descriptor(bits);
    if (trans) return narrow_value(narrow, tile_shared + from.address<true>(line, k, 1), 0);
    return narrow_value(narrow, tile_shared + from.address<false>(line, k / kUnit * 16, 1), k % kUnit);
  }
  static float factor(uint32_t address, unsigned line, unsigned number, bool is_e8m0) {
    const unsigned column = (address & 0xffff) + line / 32;
    const uint32_t word = tensor_memory().words[line % 32][column];
    for (unsigned quarter = 1; quarter < 4; ++quarter)
      if (tensor_memory().words[quarter * 32 + line % 32][column] != word)
        stop(Fault::kInstruction, "multiplies with factors that are not alike in all quarters of tensor memory");
    return scale_factor(word >> 8 * number & 0xff, is_e8m0);
  }

  static void note(uint64_t bits, bool trans, unsigned lines) {
    const Descriptor from = tensor_descriptor(bits);
    for (unsigned line = 0; line < lines; line += trans ? 16 : 1)
      for (unsigned k = 0; k < K; k += trans ? 1 : kUnit) {
        const unsigned at = trans ? from.address<true>(line, k, 1) : from.address<false>(line, k / kUnit * 16, 1);
        read_beside(kTensorReads, tensor_memory().time, tile_shared + at, 16);
      }
  }

  static void run(const TensorProduct& product) {
    const uint32_t word = product.descriptor;
    const unsigned n = (word >> 17 & 63) << 3;
    const bool is_e8m0 = word >> 23 & 1;
    static double a[kTensorLanes][K], b[256][K];
    const auto fill = [&](double (*to)[K], unsigned lines, uint64_t bits, unsigned format_at, unsigned trans_at,
                          unsigned sign_at, uint32_t factors, unsigned first) {
      const NarrowFormat narrow = format(word, format_at);
      for (unsigned line = 0; line < lines; ++line)
        for (unsigned k = 0; k < K; ++k) {
          const double scale = factor(factors, line, first + k / (K / Factors), is_e8m0);
          to[line][k] = element(bits, word >> trans_at & 1, narrow, line, k) * (word >> sign_at & 1 ? -scale : scale);
        }
    };
    fill(a, kTensorLanes, product.a, 7, 15, 13, product.a_factors, word >> 29 & 3);
    fill(b, n, product.b, 10, 16, 14, product.b_factors, word >> 4 & 3);
    for (unsigned row = 0; row < kTensorLanes; ++row)
      for (unsigned column = 0; column < n; ++column) {
        uint32_t* const d = &tensor_memory().words[row][(product.d & 0xffff) + column];
        double sum = product.adds ? packed<F32>(d, 0) : 0.0;
        for (unsigned k = 0; k < K; ++k) sum += a[row][k] * b[column][k];
        pack<F32>(d, 0, static_cast<float>(sum));
      }
  }
};
template <unsigned K, unsigned Factors>
void tcgen05_mma_scaled(uint32_t d, uint64_t a, uint64_t b, uint32_t descriptor, uint32_t a_factors, uint32_t b_factors,
                        int accumulate) {
  using Self = ScaledProduct<K, Factors>;
  const unsigned n = (descriptor >> 17 & 63) << 3;
  if ((descriptor >> 24 & 31) != 8 || n == 0 || n % 16 != 0 || n > 256)
    stop(Fault::kInstruction, "multiplies with a descriptor of no block-scaled product");
  if ((descriptor >> 29 & 3) % Factors != 0 || (descriptor >> 4 & 3) % Factors != 0)
    stop(Fault::kInstruction, "multiplies with factors that begin at no multiple of what a step takes");
  TensorMemory& own = tensor_memory();
  own.time = begin_reads();
  if (own.time != 0) Self::note(a, descriptor >> 15 & 1, kTensorLanes), Self::note(b, descriptor >> 16 & 1, n);
  tensor_words(0, d & 0xffff, n);
  tensor_words(0, a_factors & 0xffff, 4), tensor_words(0, b_factors & 0xffff, (n + 31) / 32);
  note_product(a_factors & 0xffff, 4, 0), note_product(b_factors & 0xffff, (n + 31) / 32, 0);
  note_product(d & 0xffff, n, own.time);
  if (d >> 16 != 0) stop(Fault::kInstruction, "multiplies into lanes of tensor memory that do not begin at 0");
  begin_tensor_product({&Self::run, d, a, b, accumulate != 0, nullptr, descriptor, a_factors, b_factors});
}

// 32 lines of 16 bytes to four columns of each quarter of the lanes: done with the products that are begun after it.
inline void copy_words(const TensorProduct& copy) {
  const Descriptor from = tensor_descriptor(copy.a);
  for (unsigned lane = 0; lane < kTensorLanes; ++lane)
    memcpy(&tensor_memory().words[lane][copy.d & 0xffff], tile_shared + from.address<false>(lane % 32, 0, 1), 16);
}
inline void tcgen05_copy_words(uint32_t to, uint64_t from) {
  TensorMemory& own = tensor_memory();
  own.time = begin_reads();
  for (unsigned line = 0; own.time != 0 && line < 32; ++line)
    read_beside(kTensorReads, own.time, tile_shared + tensor_descriptor(from).address<false>(line, 0, 1), 16);
  tensor_words(0, to & 0xffff, 4);
  note_product(to & 0xffff, 4, own.time);
  begin_tensor_product({&copy_words, to, from, 0, false, nullptr, 0, 0, 0});
}
inline void tcgen05_transpose_words(const Spot& chunk) {
  together(kWarp, 0, [&](auto) {
    if (block.lane() != 0) return 0;
    uint32_t words[128];
    memcpy(words, chunk.address, sizeof(words));
    for (unsigned row = 0; row < 128; ++row) memcpy(chunk.address + (row % 32 * 4 + row / 32) * 4, &words[row], 4);
    return 0;
  });
}

inline void tcgen05_commit(const Spot& barrier) {
  TensorMemory& own = tensor_memory();
  const auto end = [](void* data) {
    const uint64_t last = reinterpret_cast<uint64_t>(data);
    while (tensor_memory().ended < last) tensor_memory().end_oldest(true);
  };
  phase_arrive_after(barrier, kTensorReads, own.time, end, reinterpret_cast<void*>(own.begun));
}

}  // namespace tile
