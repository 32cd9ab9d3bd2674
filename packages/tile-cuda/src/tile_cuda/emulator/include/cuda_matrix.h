// Matrix instructions on the host: what `tile_cuda/instructions` prints for emulated execution.
//
// Products are exact; sums are float32 (int32, which wraps, float64), k upwards, one rounding an instruction where D is
// narrower.
#pragma once

#include "tile_checks.h"
#include "tile_formats.h"

namespace tile {

// How many bits of a byte are the code of a float.
template <typename F>
constexpr unsigned kCodeBits = F::kBits;
template <int E, int M, int Low>
constexpr unsigned kCodeBits<Tiny<E, M, Low>> = E + M + 1;
// Code `k` of a unit of sixteen bytes that are packed from the first bit on.
inline unsigned unit_code(const unsigned char* unit, unsigned bits, unsigned k) {
  uint64_t window = 0;
  memcpy(&window, unit + bits * k / 8, bits * k / 8 > 8 ? 16 - bits * k / 8 : 8);
  return static_cast<unsigned>(window >> bits * k % 8) & ((1u << bits) - 1);
}

// Half of each of `Count` bytes, from bit `First` on, as an integer of eight bits.
template <unsigned Count, unsigned First, bool Signed>
void widen_halves(void* values, const void* bytes) {
  for (unsigned at = 0; at < Count; ++at) {
    const unsigned code = static_cast<const unsigned char*>(bytes)[at] >> First & 15;
    static_cast<unsigned char*>(values)[at] = static_cast<unsigned char>(Signed ? (code ^ 8) - 8 : code);
  }
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
// The same of rows that are units of floats of four bits: a byte of each, four of which are where 16-bit elements come in
// pairs. What the hardware leaves in the low bits is moved to where products take it.
template <unsigned Count, typename Row>
void ldmatrix_units(void* registers, Row row) {
  const unsigned lane = block.lane();
  const void* const own = lane < 8 * Count ? row() : nullptr;
  together(kWarp, own, [=](auto rows) {
    auto* to = static_cast<unsigned char*>(registers);
    for (unsigned at = 0; at < 4 * Count; ++at) {
      const auto* const unit = static_cast<const unsigned char*>(rows(8 * (at / 4) + lane / 4));
      to[at] = static_cast<unsigned char>(unit_code(unit, 4, 4 * (lane % 4) + at % 4) << E2M1::kLow);
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

// Of an A of which every chunk of `kChunk` elements of a row holds half: the elements that are there, packed, and for each
// chunk four bits, two numbers of a quarter. tf32 counts as two halves, four bits as pairs. PTX ISA, "Sparse matrix storage".
template <typename A, unsigned K, unsigned Selector>
struct Sparse {
  static constexpr unsigned kChunk = A::kBits == 32 ? 2 : A::kBits == 4 ? 8 : 4, kHeld = kChunk / 2;
  static constexpr unsigned kUnit = kHeld < 2 ? 1 : kHeld / 2, kChunks = K / kChunk;
  static constexpr bool kWide = A::kBits >= 16;
  static constexpr unsigned kThreads = kWide ? kChunks / 4 : kChunks / 8 * 2;  // of four, which give their bits

  // The column of held element `j` of `row` of a warp, whose lanes hold `word(lane)`.
  template <typename Word>
  static unsigned column(unsigned row, unsigned j, Word word) {
    const unsigned chunk = j / kHeld, within = j % kHeld;
    const unsigned thread = kWide ? chunk / 4 : row / 8 + chunk / 8 * 2;
    const unsigned place = kWide ? chunk % 4 + row / 8 * 4 : chunk % 8;
    const unsigned bits = word(row % 8 * 4 + Selector * kThreads + thread) >> 4 * place & 0xf;
    if (kChunk == 2 ? bits != 0x4 && bits != 0xe : (bits & 3) >= bits >> 2)
      stop(Fault::kInstruction, "multiplies a sparse matrix whose metadata names no two different places in order");
    if (kChunk == 2) return 2 * chunk + (bits & 3) / 2;
    return kChunk * chunk + kUnit * (bits >> 2 * (within / kUnit) & 3) + within % kUnit;
  }
};

template <unsigned K, typename D, typename A, typename B, unsigned Selector>
void mma_sp(void* d, const void* a, const void* b, uint32_t metadata) {
  constexpr unsigned P = kPacked<A>, kA = 16 * K / 64, kB = K * 8 / 32;
  using Value = typename D::Value;
  struct Operands {
    Value a[kA], b[kB];
    uint32_t metadata;
  } own;
  own.metadata = metadata;
  for (unsigned at = 0; at < kA; ++at) own.a[at] = packed<A>(a, at);
  for (unsigned at = 0; at < kB; ++at) own.b[at] = packed<B>(b, at);
  const unsigned lane = block.lane();
  together(kWarp, static_cast<const Operands*>(&own), [=](auto held) {
    for (unsigned at = 0; at < 4; ++at) {
      const unsigned row = lane / 4, column = 2 * (lane % 4) + at % 2;
      Value sum = packed<D>(d, at);
      for (unsigned j = 0; j < K / 2; ++j) {
        const auto word = [&](unsigned other) { return held(other)->metadata; };
        const unsigned k = Sparse<A, K, Selector>::column(row + at / 2 * 8, j, word);
        const Value left = held(4 * row + j / P % 4)->a[j % P + P * (at / 2 + 2 * (j / (4 * P)))];
        const Value right = held(4 * column + k / P % 4)->b[k % P + P * (k / (4 * P))];
        sum = wrapping_sum(sum, left * right);
      }
      pack<D>(d, at, sum);
    }
    return 0;
  });
}

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
        sum = wrapping_sum(sum, left * right);
      }
      pack<D>(d, at, sum);
    }
    return 0;
  });
}

// Two in a byte.
struct E2M1Pair : E2M1 {
  static constexpr unsigned kBits = 4;
  static float value(uint8_t bits) { return E2M1::value(static_cast<uint8_t>(bits << 2)); }
};
// A factor: a power of two, or a float without sign.
inline float scale_factor(unsigned byte, bool is_power) {
  if (!is_power) return E4M3::value(static_cast<uint8_t>(byte & 0x7f));
  return byte == 0xff ? NAN : ldexpf(1.0f, static_cast<int>(byte) - 127);
}

// Block-scaled products of a warp: `Factors` factors a row of A and a column of B, bytes of a word of few lanes.
// Two factors leave the range of a float32 where their product with the elements does not: in double all are exact.
template <unsigned K, unsigned Factors, typename A, typename B, bool IsPower, unsigned ByteA, unsigned ThreadA,
          unsigned ByteB, unsigned ThreadB>
void mma_scaled(void* d, const void* a, const void* b, uint32_t a_factors, uint32_t b_factors) {
  constexpr unsigned P = kPacked<A>, kA = 16 * K / 32, kB = K * 8 / 32;
  struct Operands {
    float a[kA], b[kB];
    uint32_t a_factors, b_factors;
  } own;
  for (unsigned at = 0; at < kA; ++at) own.a[at] = packed<A>(a, at);
  for (unsigned at = 0; at < kB; ++at) own.b[at] = packed<B>(b, at);
  own.a_factors = a_factors, own.b_factors = b_factors;
  const unsigned lane = block.lane();
  together(kWarp, static_cast<const Operands*>(&own), [=](auto held) {
    for (unsigned at = 0; at < 4; ++at) {
      const unsigned row = lane / 4, column = 2 * (lane % 4) + at % 2;
      const uint32_t of_row = held(4 * row + 2 * ThreadA + at / 2)->a_factors;
      const uint32_t of_column = held(4 * column + ThreadB)->b_factors;
      double sum = packed<F32>(d, at);
      for (unsigned k = 0; k < K; ++k) {
        const unsigned element = k % P, quarter = k / P % 4, group = k / (4 * P), run = k / (K / Factors);
        const double left = held(4 * row + quarter)->a[element + P * (at / 2 + 2 * group)];
        const double right = held(4 * column + quarter)->b[element + P * group];
        sum += left * scale_factor(of_row >> 8 * (ByteA + run) & 0xff, IsPower) *
               (right * scale_factor(of_column >> 8 * (ByteB + run) & 0xff, IsPower));
      }
      pack<F32>(d, at, static_cast<float>(sum));
    }
    return 0;
  });
}

}  // namespace tile
