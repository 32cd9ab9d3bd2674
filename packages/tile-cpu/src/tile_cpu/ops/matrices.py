"""Operands of a matrix multiplication in memory, and the copies that bring one into the form a micro-kernel reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.regions import LOCAL, constant, whole
from tile_core.ops.build import Tile, cast, int32, number, parallel

_INT64 = as_dtype("int64")


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: a tile whose last two axes are its rows and columns, or columns and rows when `swapped`."""

    tile: Tile
    swapped: bool = False

    @property
    def dtype(self) -> DType:
        """The element's dtype."""
        return self.tile.dtype

    def address(self, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        """The address of an element."""
        return tirx.address_of(self.load(row, column))

    def load(self, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        """An element."""
        return self.tile.load(self._index(row, column))

    def store(self, value: ir.Expr, row: ir.Expr, column: ir.Expr) -> S.Stmt:
        """Write an element, converted to the matrix's dtype."""
        return self.tile.store(value, self._index(row, column))

    def _index(self, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
        inner = [column, row] if self.swapped else [row, column]
        return [*[int32(0)] * (self.tile.rank - 2), *inner]

    @property
    def strides(self) -> tuple[ir.Expr, ir.Expr]:
        """Elements between rows and between columns, as int64."""
        buffer = self.tile.buffer
        outer: ir.Expr = buffer.shape[-1]
        inner: ir.Expr = int32(1)
        if buffer.strides:
            outer, inner = buffer.strides[-2], buffer.strides[-1]
        return (_wide(inner), _wide(outer)) if self.swapped else (_wide(outer), _wide(inner))

    @property
    def contiguous_rows(self) -> bool:
        """Whether the elements of a row are neighbours."""
        return constant(self.strides[1]) == 1


@dataclass(frozen=True)
class Shifted(Matrix):
    """A matrix from column `first` on."""

    first: int = 0

    def _index(self, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
        return super()._index(row, column + self.first)


def local(rows: int, columns: int, dtype: str, name: str) -> Matrix:
    """A new row-major matrix; its buffer is to be allocated."""
    return Matrix(Tile(whole(tirx.decl_buffer((rows, columns), dtype, name, scope=LOCAL))))


def allocation(matrix: Matrix) -> S.Stmt:
    """The allocation of a matrix made by `local`."""
    return S.AllocBuffer(matrix.tile.buffer)


def elementwise(rows: int, columns: int, body: Callable[[ir.Expr, ir.Expr], S.Stmt]) -> S.Stmt:
    """A `PARALLEL` nest over the elements of a matrix."""
    return parallel([int32(rows), int32(columns)], lambda index: body(*index))


def convert(source: Matrix, target: Matrix, rows: int, columns: int) -> S.Stmt:
    """Copy with conversion to the target's dtype."""
    return elementwise(rows, columns, lambda i, j: target.store(source.load(i, j), i, j))


def copy_window(source: Matrix, target: Matrix, rows: range, columns: range) -> S.Stmt:
    """Copy the elements of a part of `source` to the same place in `target`."""

    def element(i: ir.Expr, j: ir.Expr) -> S.Stmt:
        row, column = i + rows.start, j + columns.start
        return target.store(source.load(row, column), row, column)

    return elementwise(len(rows), len(columns), element)


def fill(target: Matrix, rows: int, columns: int) -> S.Stmt:
    """Set every element to zero."""
    return elementwise(rows, columns, lambda i, j: target.store(number(0, target.dtype), i, j))


def pad_columns(source: Matrix, target: Matrix, rows: int, columns: int, *, flip: int = 0) -> S.Stmt:
    """Copy into a wider matrix, zeros behind the row's end; `flip` is xored to every element that is copied."""
    width = constant(target.tile.buffer.shape[-1])
    assert width is not None

    def element(i: ir.Expr, j: ir.Expr) -> S.Stmt:
        value = source.load(i, j)
        if flip:
            value = ir.prim.BitwiseXor(value, tirx.IntImm(source.dtype.tvm, flip))
        if width > columns:
            value = tirx.if_then_else(j < columns, value, number(0, source.dtype))
        return target.store(value, i, j)

    return elementwise(rows, width, element)


def pack_groups(source: Matrix, target: Matrix, depth: int, columns: int, group: int) -> S.Stmt:
    """Gather `group` elements that stand below each other into one uint32, zeros beyond `depth` and `columns`.

    `target[k, n]` holds `source[group * k, n]` in its lowest bits.
    """
    rows, width = (constant(extent) for extent in target.tile.buffer.shape)
    assert rows is not None and width is not None
    bits = 32 // group

    def part(k: ir.Expr, n: ir.Expr, member: int) -> ir.Expr:
        at = k * group + member
        inside = [at < depth] if rows * group > depth else []
        inside += [n < columns] if width > columns else []
        value = tirx.Cast("uint32", _bits(source.load(at, n), bits))
        for condition in inside:
            value = tirx.if_then_else(condition, value, tirx.IntImm("uint32", 0))
        return value if member == 0 else tirx.LShift(value, tirx.IntImm("uint32", bits * member))

    def element(k: ir.Expr, n: ir.Expr) -> S.Stmt:
        value = part(k, n, 0)
        for member in range(1, group):
            value = ir.prim.BitwiseOr(value, part(k, n, member))
        return target.store(value, k, n)

    return elementwise(rows, width, element)


def _bits(value: ir.Expr, bits: int) -> ir.Expr:
    dtype = f"uint{bits}"
    return (
        tirx.Cast(dtype, value) if str(value.ty.dtype).startswith(("int", "uint")) else tirx.reinterpret(dtype, value)
    )


def _wide(expr: ir.Expr) -> ir.Expr:
    value = constant(expr)
    return cast(expr, _INT64) if value is None else tirx.IntImm("int64", value)
