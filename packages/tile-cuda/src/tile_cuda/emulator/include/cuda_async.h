// The meaning of CUDA's asynchronous instructions over `tile_async.h`: boxes of the tensor copy engine, copies of a thread,
// warps that take roles. `tile_cuda/instructions` has one line here for each instruction.
#pragma once

#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "tile_async.h"

// What a tensor map says, encoded as 128 bytes that no kernel looks into.
struct alignas(64) TileTensorMap {
  unsigned char* address;
  uint64_t strides[4];
  uint32_t last[5];  // extents less 1
  uint16_t box[5];
  uint8_t rank, itemsize, swizzle, type;
  uint64_t mark;
  unsigned char rest[40];
};
static_assert(sizeof(TileTensorMap) == 128, "a tensor map has 128 bytes");

namespace cuda_async {

constexpr uint64_t kMark = 0x74656e736f726d61;
constexpr unsigned kBoxAlignment = 128, kUnit = 16;

// Where the byte at `address` of a box lies: the 16-byte unit is permuted within its row of 32, 64 or 128 bytes by the number
// of the row of 128 bytes, all of them bits of the address.
inline unsigned char* swizzled(unsigned char* address, unsigned mode) {
  const size_t offset = tile::shared_offset(address);
  const size_t row = mode == 3 ? offset >> 7 & 7 : mode == 2 ? offset >> 7 & 3 : mode == 1 ? offset >> 7 & 1 : 0;
  return tile_shared + (offset ^ row << 4);
}

inline void check(const TileTensorMap& map, const tile::Spot& place, std::initializer_list<int> coordinates) {
  if (map.mark != kMark) tile::refuse_copy(place, " with something that is no tensor map");
  if (map.rank != coordinates.size()) tile::refuse_copy(place, " with more or fewer coordinates than the tensor map has axes");
  if (tile::shared_offset(place.address) % kBoxAlignment != 0)
    tile::refuse_copy(place, " a box, which begins at no multiple of 128 bytes");
  if (int64_t{coordinates.begin()[0]} * map.itemsize % kUnit != 0)
    tile::refuse_copy(place, " a box that begins at no multiple of 16 bytes in its row");
}

// Calls `run(shared, global, bytes)` for all pieces of a box; `global` is null outside of the tensor.
template <typename Run>
void each_piece(const TileTensorMap& map, unsigned char* shared, std::initializer_list<int> first, Run run) {
  int64_t at[5] = {};
  unsigned count[5] = {1, 1, 1, 1, 1};
  for (unsigned axis = 0; axis < map.rank; ++axis) count[axis] = map.box[axis], at[axis] = first.begin()[axis];
  const unsigned bytes = count[0] * map.itemsize;
  const int64_t extent = (int64_t{map.last[0]} + 1) * map.itemsize, begin = at[0] * map.itemsize;
  for (unsigned i4 = 0; i4 < count[4]; ++i4)
    for (unsigned i3 = 0; i3 < count[3]; ++i3)
      for (unsigned i2 = 0; i2 < count[2]; ++i2)
        for (unsigned i1 = 0; i1 < count[1]; ++i1, shared += bytes) {
          const int64_t place[5] = {0, at[1] + i1, at[2] + i2, at[3] + i3, at[4] + i4};
          const unsigned char* row = map.address;
          bool inside = true;
          for (unsigned axis = 1; axis < map.rank; ++axis) {
            inside &= place[axis] >= 0 && place[axis] <= int64_t{map.last[axis]};
            row += place[axis] * static_cast<int64_t>(map.strides[axis - 1]);
          }
          for (unsigned unit = 0; unit < bytes; unit += kUnit) {
            // Of a unit, the bytes before, in, and after the tensor.
            unsigned char* const to = swizzled(shared + unit, map.swizzle);
            const int64_t from = begin + unit;
            const int64_t low = !inside || from >= extent ? kUnit : from < 0 ? -from : 0;
            const int64_t high = extent - from;
            const unsigned begins = static_cast<unsigned>(low > kUnit ? kUnit : low);
            const unsigned ends = static_cast<unsigned>(!inside || high < begins ? begins : high > kUnit ? kUnit : high);
            if (begins > 0) run(to, nullptr, begins);
            if (ends > begins) run(to + begins, row + from + begins, ends - begins);
            if (ends < kUnit) run(to + ends, nullptr, kUnit - ends);
          }
        }
}

inline void load_box(const tile::Spot& to, const TileTensorMap& map, const tile::Spot& barrier,
                     std::initializer_list<int> first) {
  check(map, to, first);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  each_piece(map, to.address, first, tile::copy_run);
  tile::copy_issue(barrier);
}

inline void load_box_multicast(const tile::Spot& to, const TileTensorMap& map, const tile::Spot& barrier,
                               unsigned mask, std::initializer_list<int> first) {
  check(map, to, first);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  each_piece(map, to.address, first, tile::copy_run);
  tile::copy_issue_to(barrier, mask);
}

// To the same place of a block of the cluster, whose barrier gets an arrival and the bytes.
inline void send(const tile::Spot& to, const tile::Spot& from, const tile::Spot& barrier, unsigned bytes, unsigned block) {
  if (tile::shared_offset(to.address) % kUnit != 0 || tile::shared_offset(from.address) % kUnit != 0)
    tile::refuse_copy(to, ", from or to an address that is no multiple of 16 bytes");
  tile::phase_expect_at(barrier, bytes, block);
  tile::phase_arrive_at(barrier, block);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  tile::copy_run_from_shared(to.address, from.address, bytes);
  tile::copy_issue_to(barrier, 1u << block);
}

// The bytes are signalled at the barrier of the even block of the pair.
inline void load_box_2sm(const tile::Spot& to, const TileTensorMap& map, const tile::Spot& barrier,
                         std::initializer_list<int> first) {
  check(map, to, first);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  each_piece(map, to.address, first, tile::copy_run);
  tile::copy_issue_at(barrier, tile::cluster_rank() & ~1u);
}

// Four rows of a matrix, each a box.
template <typename Run>
void each_row(const TileTensorMap& map, const tile::Spot& place, std::initializer_list<int> at, Run run) {
  const int* const numbers = at.begin();
  check(map, place, {numbers[0], 0});
  if (map.box[1] != 1) tile::refuse_copy(place, " four rows with a tensor map whose box is more than one");
  for (unsigned row = 0; row < 4; ++row)
    each_piece(map, place.address + row * map.box[0] * map.itemsize, {numbers[0], numbers[1 + row]}, run);
}
inline void gather_rows(const tile::Spot& to, const TileTensorMap& map, const tile::Spot& barrier,
                        std::initializer_list<int> at) {
  tile::copy_begin(tile::CopyKind::kToShared, to);
  each_row(map, to, at, tile::copy_run);
  tile::copy_issue(barrier);
}
inline void scatter_rows(const TileTensorMap& map, const tile::Spot& from, std::initializer_list<int> at) {
  for (const int index : at)
    if (index < 0) tile::refuse_copy(from, " rows or a column of a negative index, which are only loaded");
  tile::copy_begin(tile::CopyKind::kFromShared, from);
  each_row(map, from, at, [](unsigned char* shared, const unsigned char* global, unsigned bytes) {
    if (global != nullptr) tile::copy_run(const_cast<unsigned char*>(global), shared, bytes);
  });
  tile::copy_issue();
}

// The answer to a request for a cluster that has not begun: whether there was one, and its first block.
struct Answer {
  uint32_t mark, x, y, z;
};
constexpr uint32_t kGranted = 0x636c6301, kDenied = 0x636c6300;
inline Answer ask_for_cluster(const tile::Spot& to) {
  if (tile::shared_offset(to.address) % sizeof(Answer) != 0)
    tile::refuse_copy(to, " an answer, which begins at no multiple of 16 bytes");
  tile::Dim3 first{};
  const tile::Claim claim = tile::claim_cluster(first);
  if (claim == tile::Claim::kAgain)
    tile::stop(tile::Fault::kInstruction, "asks for another cluster after a request that was denied");
  return {claim == tile::Claim::kGranted ? kGranted : kDenied, first.x, first.y, first.z};
}
inline void clc_try_cancel(const tile::Spot& to, const tile::Spot& barrier) {
  const Answer answer = ask_for_cluster(to);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  tile::copy_run_from_shared(to.address, &answer, sizeof(answer));
  tile::copy_issue(barrier);
}
inline void clc_try_cancel_multicast(const tile::Spot& to, const tile::Spot& barrier) {
  const Answer answer = ask_for_cluster(to);
  tile::copy_begin(tile::CopyKind::kToShared, to);
  tile::copy_run_from_shared(to.address, &answer, sizeof(answer));
  tile::copy_issue_to(barrier, (1u << tile::cluster_size()) - 1);
}
inline Answer answer_at(const void* from) {
  Answer answer;
  memcpy(&answer, from, sizeof(answer));
  if (answer.mark != kGranted && answer.mark != kDenied)
    tile::stop(tile::Fault::kInstruction, "looks into something that is no answer to a request for a cluster");
  return answer;
}
inline void clc_is_canceled(const void* from, void* value) {
  const uint32_t found = answer_at(from).mark == kGranted;
  memcpy(value, &found, sizeof(found));
}
template <int Axis>
void clc_first_block(const void* from, void* value) {
  const Answer answer = answer_at(from);
  if (answer.mark != kGranted) tile::stop(tile::Fault::kInstruction, "asks which cluster a request got that was denied");
  const uint32_t found = Axis == 0 ? answer.x : Axis == 1 ? answer.y : answer.z;
  memcpy(value, &found, sizeof(found));
}

template <typename T>
void add_elements(unsigned char* to, const unsigned char* from, unsigned bytes) {
  for (unsigned at = 0; at < bytes; at += sizeof(T)) {
    T old, value;
    memcpy(&old, to + at, sizeof(T));
    memcpy(&value, from + at, sizeof(T));
    value = old + value;
    memcpy(to + at, &value, sizeof(T));
  }
}

inline tile::Combine addition(const TileTensorMap& map, const tile::Spot& from) {
  switch (map.type) {
    case 2: case 3: return add_elements<uint32_t>;
    case 4: case 5: return add_elements<uint64_t>;
    case 6: return add_elements<tile::Half>;
    case 7: return add_elements<float>;
    case 9: return add_elements<tile::BFloat16>;
  }
  tile::refuse_copy(from, " additions of a type that the engine does not add");
}

inline void store_box(const TileTensorMap& map, const tile::Spot& from, std::initializer_list<int> first, bool add) {
  check(map, from, first);
  for (const int index : first)
    if (index < 0) tile::refuse_copy(from, " a box that begins at a negative index, which is only loaded");
  tile::copy_begin(tile::CopyKind::kFromShared, from, add ? addition(map, from) : nullptr);
  each_piece(map, from.address, first, [](unsigned char* shared, const unsigned char* global, unsigned bytes) {
    if (global != nullptr) tile::copy_run(const_cast<unsigned char*>(global), shared, bytes);
  });
  tile::copy_issue();
}

inline void add_bulk(const tile::Spot& to, const tile::Spot& from, unsigned bytes) {
  if (tile::shared_offset(from.address) % kUnit != 0 || reinterpret_cast<uintptr_t>(to.address) % kUnit != 0)
    tile::refuse_copy(from, ", from or to an address that is no multiple of 16 bytes");
  tile::copy_begin(tile::CopyKind::kFromShared, from, add_elements<float>);
  tile::copy_run(to.address, from.address, bytes);
  tile::copy_issue();
}

inline void copy_element(const tile::Spot& to, const tile::Spot& from, unsigned width, int bytes) {
  if (bytes < 0 || bytes > static_cast<int>(width)) tile::refuse_copy(to, " more bytes than one copy moves");
  const uintptr_t address = reinterpret_cast<uintptr_t>(from.address);
  if (tile::shared_offset(to.address) % width != 0 || (bytes != 0 && address % width != 0))
    tile::refuse_copy(to, ", from or to an address that is no multiple of the width of the copy");
  tile::copy_begin(tile::CopyKind::kOfThread, to);
  const unsigned count = static_cast<unsigned>(bytes);
  if (count > 0) tile::copy_run(to.address, from.address, count);
  if (count < width) tile::copy_run(to.address + count, nullptr, width - count);
  tile::copy_issue();
}

inline bool elect() {
  const unsigned lane = tile::block.lane();
  return tile::together(0xffffffffu, lane, [lane](auto) {
    return lane == static_cast<unsigned>(__builtin_ctzll(tile::live_lanes()));
  });
}

// The rules of `cuTensorMapEncodeTiled`; null where the words keep them.
inline const char* broken_rule(const int64_t* words, const uint32_t* box) {
  const int64_t rank = words[17], itemsize = words[21];
  if (words[0] % 16 != 0) return "the address is no multiple of 16";
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (words[1 + axis] < 1 || words[1 + axis] > int64_t{1} << 32) return "an extent is not from 1 to 2^32";
    if (box[axis] < 1 || box[axis] > 256) return "a box has an edge that is not from 1 to 256";
    if (axis > 0 && (words[5 + axis] % 16 != 0 || words[5 + axis] < 0 || words[5 + axis] >= int64_t{1} << 40))
      return "a stride is no multiple of 16 bytes below 2^40";
  }
  if (box[0] * itemsize % 16 != 0) return "the rows of a box are no multiple of 16 bytes";
  if (words[18] != 0 && box[0] * itemsize != 16 << words[18])
    return "the rows of a box are not as long as the swizzle";
  return nullptr;
}

}  // namespace cuda_async

extern "C" __attribute__((used)) int tile_emulated_describe(void*, void* descriptor, const int64_t* words,
                                                            const char* name) {
  uint32_t box[6];
  memcpy(box, words + 10, sizeof(box));
  if (const char* const rule = cuda_async::broken_rule(words, box)) {
    tile::failure.fault = tile::Fault::kDescriptor;
    int used = snprintf(tile::failure.text, sizeof(tile::failure.text), "%s: %s: address %#llx", name, rule,
                        static_cast<unsigned long long>(words[0]));
    for (int64_t axis = 0; axis < words[17]; ++axis)
      used += snprintf(tile::failure.text + used, sizeof(tile::failure.text) - static_cast<size_t>(used),
                       "; axis %d: extent %lld, stride %lld bytes, box %u", int(axis), static_cast<long long>(words[1 + axis]),
                       static_cast<long long>(axis == 0 ? words[21] : words[5 + axis]), box[axis]);
    return 1;
  }
  TileTensorMap map{};
  map.address = reinterpret_cast<unsigned char*>(words[0]);
  for (int64_t axis = 0; axis < words[17]; ++axis) {
    map.last[axis] = static_cast<uint32_t>(words[1 + axis] - 1);
    map.box[axis] = static_cast<uint16_t>(box[axis]);
    if (axis > 0) map.strides[axis - 1] = static_cast<uint64_t>(words[5 + axis]);
  }
  map.type = static_cast<uint8_t>(words[16]), map.rank = static_cast<uint8_t>(words[17]);
  map.swizzle = static_cast<uint8_t>(words[18]), map.itemsize = static_cast<uint8_t>(words[21]);
  map.mark = cuda_async::kMark;
  memcpy(descriptor, &map, sizeof(map));
  return 0;
}
