// The Cube unit over the host emulator: its memories, the engines around it, and the unit. All that its pipes touch is known,
// so every instruction is carried out at once, and one that has not waited for what it needs is a fault.
#pragma once

#include "tile_checks.h"

#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __cube__
#define TILE_CUBE_BUFFERS(l1, l0a, l0b, l0c)                                                                       \
  static_assert(l1 <= sizeof(tile_l1) && l0a <= sizeof(tile_l0a) && l0b <= sizeof(tile_l0b) && l0c <= sizeof(tile_l0c), \
                "more than a memory of the Cube unit has")

alignas(512) inline unsigned char tile_l1[512 * 1024], tile_l0a[64 * 1024], tile_l0b[64 * 1024], tile_l0c[256 * 1024];

enum class QuantMode_t : uint64_t { NoQuant, F322F16 };
enum class QuantMode_post : uint64_t { NoConv };

namespace tile {

constexpr unsigned kRows = 16, kColumnBytes = 32, kFractalBytes = 512;

inline unsigned nz_column_stride = 0;  // of L1, in units of 32 bytes

// A pipe touches a piece of a memory of the unit.
inline void touch_cube(pipe_t pipe, const void* first, size_t bytes, bool writes) {
  const unsigned char* const begin = static_cast<const unsigned char*>(first);
  note_access({pipe, 0, begin, begin + bytes, writes});
}
inline void expect_inside(const void* first, size_t bytes, const unsigned char* memory, size_t size) {
  const unsigned char* const begin = static_cast<const unsigned char*>(first);
  if (begin < memory || begin + bytes > memory + size) stop(Fault::kBounds, "leaves a memory of the Cube unit");
}
// Elements of a tensor that an engine reads or writes.
inline void touch_tensor(const Spot& tensor, const void* address, unsigned bytes, Use use) {
  if (!is_checked()) return;
  touch(address, bytes, Access{use, tensor.site, 1, tensor.rank, tensor.index, tensor.extent, "an engine"});
}

// Fractals from L1 to L0A or L0B; `transposes` each, and the order of their axes.
template <typename T>
void load_fractals(unsigned char* memory, size_t size, T* target, const T* source, unsigned row, unsigned column,
                   unsigned rows, unsigned columns, unsigned source_stride, unsigned target_stride, bool transposes) {
  if (!is_first_thread()) return;
  constexpr unsigned kElements = kFractalBytes / sizeof(T), kColumns = kColumnBytes / sizeof(T);
  if (transposes && kColumns != kRows) stop(Fault::kInstruction, "transposes fractals that are not square");
  const unsigned down = transposes ? columns : rows, across = transposes ? rows : columns;
  const T* const first = source + (size_t{column} * source_stride + row) * kElements;
  const size_t read = (size_t{columns - 1} * source_stride + rows) * kElements;
  const size_t written = (size_t{across - 1} * target_stride + down) * kElements;
  expect_inside(first, read * sizeof(T), tile_l1, sizeof(tile_l1));
  expect_inside(target, written * sizeof(T), memory, size);
  touch_cube(PIPE_MTE1, first, read * sizeof(T), false);
  touch_cube(PIPE_MTE1, target, written * sizeof(T), true);
  for (unsigned j = 0; j < columns; ++j)
    for (unsigned i = 0; i < rows; ++i) {
      const T* const from = first + (size_t{j} * source_stride + i) * kElements;
      T* const to = target + (transposes ? size_t{i} * target_stride + j : size_t{j} * target_stride + i) * kElements;
      for (unsigned r = 0; r < kRows; ++r)
        for (unsigned c = 0; c < kColumns; ++c) to[transposes ? c * kColumns + r : r * kColumns + c] = from[r * kColumns + c];
    }
}

}  // namespace tile

inline void asc_set_gm2l1_nz_para(unsigned, unsigned row_stride, unsigned column_stride, unsigned) {
  if (row_stride != 1) tile::stop(tile::Fault::kInstruction, "asks for rows in L1 that are apart");
  if (tile::is_first_thread()) tile::nz_column_stride = column_stride;
}
template <typename T>
void asc_copy_gm2l1_nd2nz(T* target, const tile::Spot& tensor, uint64_t row_bytes, unsigned, unsigned rows, unsigned columns,
                          uint64_t, bool) {
  if (!tile::is_first_thread()) return;
  constexpr unsigned kColumns = tile::kColumnBytes / sizeof(T);
  const unsigned wide = (columns + kColumns - 1) / kColumns;
  const size_t bytes = (size_t{wide - 1} * tile::nz_column_stride + rows) * tile::kColumnBytes;
  tile::expect_inside(target, bytes, tile_l1, sizeof(tile_l1));
  tile::touch_cube(PIPE_MTE2, target, bytes, true);
  for (unsigned r = 0; r < rows; ++r) {
    const unsigned char* const from = tensor.address + r * row_bytes;
    tile::touch_tensor(tensor, from, columns * sizeof(T), tile::Use::kRead);
    for (unsigned c = 0; c < wide * kColumns; ++c) {
      T value{};
      if (c < columns) memcpy(&value, from + c * sizeof(T), sizeof(T));
      target[(size_t{c / kColumns} * tile::nz_column_stride + r) * kColumns + c % kColumns] = value;
    }
  }
}
#define TILE_LOAD_FRACTALS(name, memory, transposes)                                                               \
  template <typename T>                                                                                            \
  void name(T* target, const T* source, unsigned row, unsigned column, unsigned rows, unsigned columns, unsigned from, \
            unsigned to) {                                                                                         \
    tile::load_fractals(memory, sizeof(memory), target, source, row, column, rows, columns, from, to, transposes); \
  }
TILE_LOAD_FRACTALS(asc_copy_l12l0a, tile_l0a, false)
TILE_LOAD_FRACTALS(asc_copy_l12l0a_transpose, tile_l0a, true)
TILE_LOAD_FRACTALS(asc_copy_l12l0b, tile_l0b, false)
TILE_LOAD_FRACTALS(asc_copy_l12l0b_transpose, tile_l0b, true)
#undef TILE_LOAD_FRACTALS

template <typename C, typename T>
void asc_mmad(C* c, const T* a, const T* b, unsigned m, unsigned k, unsigned n, unsigned, bool, bool, bool begins) {
  if (!tile::is_first_thread()) return;
  constexpr unsigned kColumns = tile::kColumnBytes / sizeof(T);
  if (m % tile::kRows || n % tile::kRows || k % kColumns) tile::stop(tile::Fault::kInstruction, "multiplies parts of fractals");
  tile::expect_inside(a, size_t{m} * k * sizeof(T), tile_l0a, sizeof(tile_l0a));
  tile::expect_inside(b, size_t{n} * k * sizeof(T), tile_l0b, sizeof(tile_l0b));
  tile::expect_inside(c, size_t{m} * n * sizeof(C), tile_l0c, sizeof(tile_l0c));
  tile::touch_cube(PIPE_M, a, size_t{m} * k * sizeof(T), false);
  tile::touch_cube(PIPE_M, b, size_t{n} * k * sizeof(T), false);
  tile::touch_cube(PIPE_M, c, size_t{m} * n * sizeof(C), true);
  const auto at = [](unsigned column, unsigned row, unsigned rows, unsigned width) {
    return (size_t{column / width} * rows + row) * width + column % width;
  };
  for (unsigned i = 0; i < m; ++i)
    for (unsigned j = 0; j < n; ++j) {
      C total = begins ? C(0) : c[at(j, i, m, tile::kRows)];
      for (unsigned l = 0; l < k; ++l)
        total = tile::wrapping_sum(total, C(C(a[at(l, i, m, kColumns)]) * C(b[at(l, j, n, kColumns)])));
      c[at(j, i, m, tile::kRows)] = total;
    }
}

inline void asc_set_l0c_copy_nz_para(unsigned, unsigned, unsigned) {}
template <typename C>
void asc_copy_l0c2gm(const tile::Spot& tensor, const C* source, unsigned n, unsigned m, unsigned row_stride,
                     unsigned column_stride, unsigned, unsigned, unsigned, uint64_t conversion, unsigned, bool, bool to_rows,
                     uint64_t, unsigned, bool, unsigned, bool, bool, bool, bool) {
  if (!tile::is_first_thread()) return;
  if (!to_rows) tile::stop(tile::Fault::kInstruction, "stores an accumulator in another order than rows");
  const bool halves = conversion == static_cast<uint64_t>(QuantMode_t::F322F16);
  const unsigned itemsize = halves ? 2 : sizeof(C);
  const size_t bytes = (size_t{n / tile::kRows - 1} * column_stride + m) * tile::kRows * sizeof(C);
  tile::expect_inside(source, bytes, tile_l0c, sizeof(tile_l0c));
  tile::touch_cube(PIPE_FIX, source, bytes, false);
  for (unsigned i = 0; i < m; ++i) {
    unsigned char* const row = tensor.address + size_t{i} * row_stride * itemsize;
    tile::touch_tensor(tensor, row, n * itemsize, tile::Use::kWrite);
    for (unsigned j = 0; j < n; ++j) {
      const C value = source[(size_t{j / tile::kRows} * column_stride + i) * tile::kRows + j % tile::kRows];
      const half narrow(static_cast<float>(value));
      memcpy(row + size_t{j} * itemsize, halves ? static_cast<const void*>(&narrow) : &value, itemsize);
    }
  }
}
