// Runs printed SIMT kernels on the host. A block's threads are fibres of one operating-system thread: each runs until it
// waits (a barrier, an exchange within its warp) or ends, so a run is deterministic, and a wait that cannot end is seen.
//
// A vendor's header maps its names (threadIdx, __syncthreads, …) onto this one.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace tile {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kSharedBytes = 256 * 1024;
constexpr unsigned kMaxWarp = 64;
constexpr unsigned char kPoison = 0xa5;

enum class Wait { kNothing, kBarrier, kWarp };

struct Fibre {
  ucontext_t context;
  Dim3 index{0, 0, 0};
  unsigned linear = 0;
  bool done = false;
  bool released = false;
  Wait wait = Wait::kNothing;
};

struct Warp {
  std::uint64_t slots[kMaxWarp];
  std::uint64_t arrived = 0;
};

// One block at a time; everything of it is reused for the next.
class Block {
 public:
  Dim3 grid, block, index;
  unsigned warp_size = 32;
  Fibre* self = nullptr;

  // Runs every block of the grid, x fastest. 0, or 1 with `error()` set.
  int run(Dim3 grid_, Dim3 block_, unsigned warp, std::size_t shared, unsigned char* memory,
          const std::function<void()>& kernel) {
    grid = grid_, block = block_, warp_size = warp, kernel_ = &kernel;
    if (shared > kSharedBytes) return fail("the kernel asks for more shared memory than the emulator has");
    const unsigned threads = block.count();
    if (stacks_.size() < threads * kStackBytes) stacks_.resize(threads * kStackBytes);
    fibres_.resize(threads);
    warps_.resize((threads + warp - 1) / warp);
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          index = {x, y, z};
          std::memset(memory, kPoison, shared);
          if (int status = run_block(threads)) return status;
        }
    return 0;
  }

  // All threads of the block that have not ended meet here.
  void barrier() {
    ++arrived_;
    if (arrived_ == alive_) return open_barrier();
    self->wait = Wait::kBarrier;
    while (self->wait != Wait::kNothing) yield();
  }

  // The lanes of `mask` meet here.
  void warp_barrier(std::uint64_t mask) {
    Warp& warp = warps_[self->linear / warp_size];
    const unsigned base = self->linear / warp_size * warp_size;
    warp.arrived |= std::uint64_t{1} << lane();
    if ((warp.arrived & mask) == mask) {
      warp.arrived &= ~mask;
      for (unsigned other = 0; other < warp_size && base + other < fibres_.size(); ++other)
        if (mask >> other & 1) fibres_[base + other].wait = Wait::kNothing;
      return;
    }
    self->wait = Wait::kWarp;
    while (self->wait != Wait::kNothing) yield();
  }

  unsigned lane() const { return self->linear % warp_size; }
  Warp& warp() { return warps_[self->linear / warp_size]; }
  const std::string& error() const { return error_; }

 private:
  void open_barrier() {
    arrived_ = 0;
    for (Fibre& fibre : fibres_)
      if (fibre.wait == Wait::kBarrier) fibre.wait = Wait::kNothing;
  }

  void yield() { swapcontext(&self->context, &scheduler_); }

  static void enter(unsigned high, unsigned low) {
    auto* block = reinterpret_cast<Block*>(static_cast<std::uintptr_t>(high) << 32 | low);
    (*block->kernel_)();
    block->self->done = true;
    --block->alive_;
    if (block->alive_ != 0 && block->arrived_ == block->alive_) block->open_barrier();
  }

  int run_block(unsigned threads) {
    alive_ = threads, arrived_ = 0;
    for (Warp& warp : warps_) warp.arrived = 0;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    for (unsigned t = 0; t < threads; ++t) {
      Fibre& fibre = fibres_[t];
      fibre = Fibre{};
      fibre.linear = t;
      fibre.index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
      getcontext(&fibre.context);
      fibre.context.uc_stack.ss_sp = stacks_.data() + t * kStackBytes;
      fibre.context.uc_stack.ss_size = kStackBytes;
      fibre.context.uc_link = &scheduler_;
      makecontext(&fibre.context, reinterpret_cast<void (*)()>(&Block::enter), 2,
                  static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
    }
    while (alive_ != 0) {
      bool moved = false;
      for (Fibre& fibre : fibres_) {
        if (fibre.done || fibre.wait != Wait::kNothing) continue;
        self = &fibre;
        swapcontext(&scheduler_, &fibre.context);
        moved = true;
      }
      if (!moved) return stuck();
    }
    return 0;
  }

  int stuck() {
    std::string text = "deadlock in block (" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
                       std::to_string(index.z) + "):";
    unsigned shown = 0;
    for (const Fibre& fibre : fibres_) {
      if (fibre.done || shown++ == 8) continue;
      text += " thread " + std::to_string(fibre.linear) +
              (fibre.wait == Wait::kBarrier ? " waits at a barrier;" : " waits for its warp;");
    }
    return fail(text);
  }

  int fail(std::string text) {
    error_ = std::move(text);
    return 1;
  }

  const std::function<void()>* kernel_ = nullptr;
  std::vector<char> stacks_;
  std::vector<Fibre> fibres_;
  std::vector<Warp> warps_;
  ucontext_t scheduler_;
  unsigned alive_ = 0, arrived_ = 0;
  std::string error_;
};

inline thread_local Block block;

// Exchange within a warp: every lane of `mask` leaves its value, then reads that of lane `source(lane)`.
template <typename T, typename Source>
T exchange(std::uint64_t mask, T value, Source source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  Warp& warp = block.warp();
  const unsigned lane = block.lane();
  std::memcpy(&warp.slots[lane], &value, sizeof(T));
  block.warp_barrier(mask);
  const unsigned from = source(lane);
  T result = value;
  if (from < block.warp_size && (mask >> from & 1)) std::memcpy(&result, &warp.slots[from], sizeof(T));
  block.warp_barrier(mask);
  return result;
}

// Reading the arguments of a launch: one cell of 16 bytes each, a type tag and 8 bytes that begin with the value.
template <std::size_t N, typename... Parameters>
auto argument(void (*)(Parameters...)) -> typename std::tuple_element<N, std::tuple<Parameters...>>::type;
template <typename T>
T cell(void* const* cells, int position) {
  T value;
  std::memcpy(&value, &cells[2 * position + 1], sizeof(T));
  return value;
}

// Narrow floats: value and rounding (to nearest, ties to even) of IEEE-like formats with `E` exponent and `M` mantissa bits.
template <int E, int M>
struct SmallFloat {
  using Bits = std::uint16_t;
  Bits bits;

  SmallFloat() = default;
  SmallFloat(float value) : bits(encode(value)) {}
  operator float() const { return decode(bits); }

  static Bits encode(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    const std::uint32_t sign = word >> 31 << (E + M);
    const std::uint32_t magnitude = word & 0x7fffffffu;
    const std::uint32_t infinity = ((1u << E) - 1) << M;
    if (magnitude > 0x7f800000u) return static_cast<Bits>(sign | infinity | 1u << (M - 1));
    if (magnitude == 0x7f800000u) return static_cast<Bits>(sign | infinity);
    constexpr int bias = (1 << (E - 1)) - 1;
    int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
    std::uint64_t mantissa = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0);
    int drop = 23 - M;
    if (magnitude >> 23 == 0) exponent = 1 - 127 + bias;
    if (exponent <= 0) drop += 1 - exponent, exponent = 1;
    if (drop > 40) return static_cast<Bits>(sign);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1), rest = mantissa & (2 * half - 1);
    mantissa >>= drop;
    if (rest > half || (rest == half && (mantissa & 1))) ++mantissa;
    // The hidden bit carries into the exponent by itself.
    const std::uint64_t encoded = (static_cast<std::uint64_t>(exponent - 1) << M) + mantissa;
    return static_cast<Bits>(sign | (encoded >= infinity ? infinity : encoded));
  }

  static float decode(Bits bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> (E + M)) << 31;
    std::uint32_t exponent = bits >> M & ((1u << E) - 1), mantissa = bits & ((1u << M) - 1);
    constexpr int bias = (1 << (E - 1)) - 1;
    std::uint32_t word;
    if (exponent == (1u << E) - 1) {
      word = sign | 0x7f800000u | mantissa << (23 - M);
    } else if (exponent == 0 && E < 8) {
      float value = static_cast<float>(mantissa);
      for (int shift = 0; shift < bias - 1 + M; ++shift) value *= 0.5f;
      std::memcpy(&word, &value, 4);
      word |= sign;
    } else {
      word = sign | (exponent + 127 - bias) << 23 | mantissa << (23 - M);
    }
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }

  friend SmallFloat operator+(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) + float(b)); }
  friend SmallFloat operator-(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) - float(b)); }
  friend SmallFloat operator*(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) * float(b)); }
  friend SmallFloat operator/(SmallFloat a, SmallFloat b) { return SmallFloat(float(a) / float(b)); }
};

using Half = SmallFloat<5, 10>;
using BFloat16 = SmallFloat<8, 7>;

}  // namespace tile
