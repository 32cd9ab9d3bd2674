"""Operands of a matrix multiplication in memory, and the copies that bring one into the form a micro-kernel reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.regions import LOCAL, constant, whole
from tile_core.ops.build import Tile, cast, int32, number, parallel

_INT64 = as_dtype("int64")
_TILE_ROWS = 16


def matrix_axes(tile: Tile) -> tuple[int, int] | None:
    """The two axes of a tile that is a matrix; `None` where it is none.

    They are the last two axes, if those before them have one element, or else the two that have more than one: a head
    of a tensor of (batch, sequence, heads, dim) is a matrix too.
    """
    long = [axis for axis, extent in enumerate(tile.shape) if extent != 1]
    if tile.rank >= 2 and all(axis >= tile.rank - 2 for axis in long):
        return tile.rank - 2, tile.rank - 1
    return (long[0], long[1]) if len(long) == 2 else None


def _stride(buffer: ir.Var, axis: int) -> ir.Expr:
    """Elements between neighbours along an axis."""
    if buffer.strides:
        return buffer.strides[axis]
    stride: ir.Expr = int32(1)
    for extent in buffer.shape[axis + 1 :]:
        stride = extent if constant(stride) == 1 else _wide(stride) * _wide(extent)
    return stride


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: a tile whose `matrix_axes` are its rows and columns, or columns and rows when `swapped`."""

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
        outer, inner = self._axes
        index: list[ir.Expr] = [int32(0)] * self.tile.rank
        index[outer], index[inner] = (column, row) if self.swapped else (row, column)
        return index

    @property
    def _axes(self) -> tuple[int, int]:
        axes = matrix_axes(self.tile)
        assert axes is not None
        return axes

    @property
    def strides(self) -> tuple[ir.Expr, ir.Expr]:
        """Elements between rows and between columns, as int64."""
        outer, inner = (_wide(_stride(self.tile.buffer, axis)) for axis in self._axes)
        return (inner, outer) if self.swapped else (outer, inner)

    @property
    def contiguous_rows(self) -> bool:
        """Whether the elements of a row are neighbours."""
        return constant(self.strides[1]) == 1

    def strip(self, row: ir.Expr, height: int) -> Strip:
        """Rows `row` to `row + height` as a micro-kernel reads them."""
        del height
        return Strip(self.address(row, int32(0)), *self.strides)


@dataclass(frozen=True)
class Strip:
    """Some rows of A: the first element, elements between rows and columns, and what brings them there."""

    address: ir.Expr
    row_stride: ir.Expr
    column_stride: ir.Expr
    before: tuple[S.Stmt, ...] = ()


@dataclass(frozen=True)
class Partial(Matrix):
    """A part of a tensor that may reach beyond it, of which `depth` columns are read.

    Strips that lie within the tensor are read in place. Those that do not are copied to `edge`, with zeros beyond.
    """

    edge: Matrix = field(kw_only=True)
    depth: ir.Expr = field(kw_only=True)

    def strip(self, row: ir.Expr, height: int) -> Strip:
        """Rows `row` to `row + height`, copied unless they lie within the tensor."""
        edge, columns = self.edge, constant(self.edge.tile.buffer.shape[-1])
        assert columns is not None
        inside = tirx.Var("inside", "bool")
        within = self._within(row, height)
        copied = elementwise(height, columns, lambda i, k: edge.store(self.load(row + i, k), i, k))
        before = (S.Bind(inside, within), S.IfThenElse(tirx.Not(inside), copied, None))
        # The address says once more what is inside: that is what makes it one that may be taken.
        address = _either(within, self.address(row, int32(0)), edge.address(int32(0), int32(0)))
        stride = tirx.Select(inside, self.strides[0], edge.strides[0])
        return Strip(address, stride, self.strides[1], before)

    def _within(self, row: ir.Expr, height: int) -> ir.Expr:
        """Whether these rows lie within the tensor, and `depth` columns of them."""
        region = self.tile.region
        *outer, (down, rows), (across, columns) = zip(region.region, region.source.shape, strict=True)
        conditions = [condition for axis, size in outer for condition in (axis.min >= 0, axis.min < size)]
        conditions += [down.min + row >= 0, down.min + row + height <= rows]
        conditions += [across.min >= 0, across.min < columns, across.min + self.depth <= columns]
        return functools.reduce(tirx.And, conditions)


def _either(condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    """One of two addresses."""
    return ir.Call(ir.Op.get("prim.if_then_else"), [condition, then, otherwise], ret_ty=then.ty)


@dataclass(frozen=True)
class Shifted(Matrix):
    """A matrix from column `first` on."""

    first: int = 0

    def _index(self, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
        return super()._index(row, column + self.first)


@dataclass(frozen=True)
class Panels(Matrix):
    """A matrix in panels of `width` columns, one after the other, each row-major: a micro-kernel reads it in sequence.

    Columns count from `first`, a multiple of the width.
    """

    width: int = 1
    first: int = 0

    def _index(self, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
        at, width = column + self.first, int32(self.width)
        return [tirx.floordiv(at, width), row, tirx.floormod(at, width)]

    @property
    def strides(self) -> tuple[ir.Expr, ir.Expr]:
        """Elements between rows and between columns of a panel, as int64."""
        return tirx.IntImm("int64", self.width), tirx.IntImm("int64", 1)


@dataclass(frozen=True)
class RowTiles:
    """A matrix as matrix registers load it: tiles of 16 rows and 16 groups of elements.

    `row`, `tile_row` and `tile_column` are the elements between the rows of a tile, between a tile and the one below
    it, and between a tile and the one to its right.
    """

    tile: Tile
    row: ir.Expr
    tile_row: ir.Expr
    tile_column: ir.Expr
    in_place: bool = False

    def tile_address(self, at: ir.Expr) -> ir.Expr:
        """The address of the first tile of row `at` of tiles."""
        if self.in_place:
            return Matrix(self.tile).address(at * _TILE_ROWS, int32(0))
        return tirx.address_of(self.tile.load([at, int32(0), int32(0), int32(0)]))


def rows_in_place(source: Matrix, group: int) -> RowTiles:
    """The tiles of a matrix with contiguous rows."""
    row = source.strides[0]
    return RowTiles(source.tile, row, row * _TILE_ROWS, tirx.IntImm("int64", _TILE_ROWS * group), in_place=True)


def row_tiles(rows: int, columns: int, dtype: str, group: int, name: str) -> RowTiles:
    """New tiles, one after the other, those of a row of tiles first; the buffer is to be allocated."""
    width = _TILE_ROWS * group
    shape = (rows // _TILE_ROWS, columns // width, _TILE_ROWS, width)
    size = _TILE_ROWS * width
    steps = (tirx.IntImm("int64", step) for step in (width, shape[1] * size, size))
    return RowTiles(Tile(whole(tirx.decl_buffer(shape, dtype, name, scope=LOCAL))), *steps)


def pack_tiles(source: Matrix, target: RowTiles) -> S.Stmt:
    """Copy into tiles, row by row of `source`."""
    rows, across, height, width = target.tile.extents

    def element(index: list[ir.Expr]) -> S.Stmt:
        down, row, step, column = index
        value = source.load(down * height + row, step * width + column)
        return target.tile.store(value, [down, step, row, column])

    return parallel([rows, height, across, width], element)


def local(rows: int, columns: int, dtype: str, name: str) -> Matrix:
    """A new row-major matrix; its buffer is to be allocated."""
    return Matrix(Tile(whole(tirx.decl_buffer((rows, columns), dtype, name, scope=LOCAL))))


def panels(rows: int, columns: int, width: int, dtype: str, name: str) -> Panels:
    """A new matrix in panels, its last one filled up; its buffer is to be allocated."""
    shape = (-(-columns // width), rows, width)
    return Panels(Tile(whole(tirx.decl_buffer(shape, dtype, name, scope=LOCAL))), width=width)


def allocation(matrix: Matrix | RowTiles) -> S.Stmt:
    """The allocation of a new matrix."""
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


def pack_panels(source: Matrix, target: Panels, columns: int) -> S.Stmt:
    """Copy into panels; what fills up the last one is zero."""

    def element(k: ir.Expr, panel: ir.Expr, j: ir.Expr) -> S.Stmt:
        column = panel * target.width + j
        value = source.load(k, column)
        if columns % target.width:
            value = tirx.if_then_else(column < columns, value, number(0, source.dtype))
        return target.tile.store(value, [panel, k, j])

    return _panelwise(target, element)


def pack_groups(source: Matrix, target: Panels, rows: int, columns: int, group: int) -> S.Stmt:
    """Gather `group` elements that stand below each other into one uint32, zeros beyond `rows` and `columns`.

    Row k of `target` holds row `group * k` of `source` in its lowest bits.
    """
    steps = constant(target.tile.extents[1])
    assert steps is not None
    bits = 32 // group

    def part(k: ir.Expr, column: ir.Expr, member: int) -> ir.Expr:
        at = k * group + member
        inside = [at < rows] if steps * group > rows else []
        inside += [column < columns] if columns % target.width else []
        value = tirx.Cast("uint32", _bits(source.load(at, column), bits))
        for condition in inside:
            value = tirx.if_then_else(condition, value, tirx.IntImm("uint32", 0))
        return value if member == 0 else tirx.LShift(value, tirx.IntImm("uint32", bits * member))

    def element(k: ir.Expr, panel: ir.Expr, j: ir.Expr) -> S.Stmt:
        column = panel * target.width + j
        value = part(k, column, 0)
        for member in range(1, group):
            value = ir.prim.BitwiseOr(value, part(k, column, member))
        return target.tile.store(value, [panel, k, j])

    return _panelwise(target, element)


def _panelwise(target: Panels, body: Callable[[ir.Expr, ir.Expr, ir.Expr], S.Stmt]) -> S.Stmt:
    """`body(row, panel, column in the panel)` for every element, row by row, as the source lies in memory."""
    panel, row, column = target.tile.extents
    return parallel([row, panel, column], lambda index: body(*index))


def _bits(value: ir.Expr, bits: int) -> ir.Expr:
    dtype = f"uint{bits}"
    return (
        tirx.Cast(dtype, value) if str(value.ty.dtype).startswith(("int", "uint")) else tirx.reinterpret(dtype, value)
    )


def _wide(expr: ir.Expr) -> ir.Expr:
    value = constant(expr)
    return cast(expr, _INT64) if value is None else tirx.IntImm("int64", value)
