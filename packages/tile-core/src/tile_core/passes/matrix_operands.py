"""Operands of matrix instructions in shared memory, and calls that say what they do behind addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.dtypes import as_dtype
from tile_core.ir import regions
from tile_core.ir.analyzer import Analyzer
from tile_core.layouts.swizzle import UNIT_BYTES, SwizzledTile, swizzled
from tile_core.passes.insert_barriers import ACCESS


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix in a shared tile.

    `outer` × `depth` as the instruction sees it: `depth` is the summed axis.
    `tile` is its swizzled order, `None` for a tile that stays row by row.
    """

    region: ir.TensorRegion
    tile: SwizzledTile | None
    outer: int
    depth: int
    depth_is_contiguous: bool

    @property
    def buffer(self) -> ir.Var:
        """The tile."""
        return self.region.source

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return as_dtype(str(self.buffer.dtype)).bits // 8

    @property
    def has_units(self) -> bool:
        """Whether each row is 16-byte units, the first of which it begins with."""
        return self.has_runs(UNIT_BYTES // self.itemsize)

    def has_runs(self, count: int) -> bool:
        """Whether each row is made of runs of `count` elements, the first of which it begins with."""
        columns = regions.constant(self.buffer.shape[-1])
        assert columns is not None
        return columns % count == 0 and self.begins(1, count)

    def element(self, outer: ir.Expr, depth: ir.Expr, count: int = 1) -> ir.TensorLoad:
        """An element, or `count` neighbours of a row from there on."""
        *leading, row, column = (axis.min for axis in self.region.region)
        first, second = (outer, depth) if self.depth_is_contiguous else (depth, outer)
        last = column + second
        if count > 1:
            last = E.Ramp(last, E.IntImm(last.ty, 1), count)
        return tirx.BufferLoad(self.buffer, [*leading, row + first, last])

    def address(self, outer: ir.Expr, depth: ir.Expr) -> ir.Expr:
        """The address of an element."""
        return tirx.address_of(self.element(outer, depth))

    def begins(self, rows: int, columns: int) -> bool:
        """Whether its first row and column are provably multiples."""
        row, column = (axis.min for axis in self.region.region[-2:])
        facts = Analyzer()
        return facts.is_multiple(row, rows) and facts.is_multiple(column, columns)


Matrix = TypeVar("Matrix", bound=SharedMatrix)


def shared_matrix(kind: type[Matrix], region: ir.TensorRegion, *, depth_is_last: bool) -> Matrix | None:
    """`region` as an operand; `None` for extents that are not constants and elements that are not whole bytes.

    Rows that are an odd number of 16-byte units stay as they are: eight neighbours lie in different banks anyway.
    """
    buffer = region.source
    rows, columns = (regions.constant(extent) for extent in list(buffer.shape)[-2:])
    own_rows, own_columns = (regions.constant(axis.extent) for axis in region.region[-2:])
    dtype = as_dtype(str(buffer.dtype))
    if rows is None or columns is None or own_rows is None or own_columns is None or dtype.bits not in (8, 16, 32, 64):
        return None
    tile = swizzled(rows, columns, dtype.bits // 8)
    outer, depth = (own_rows, own_columns) if depth_is_last else (own_columns, own_rows)
    return kind(region, tile, outer, depth, depth_is_last)


def reading(call: ir.Call) -> ir.Call:
    """`call` as one that only reads behind its addresses."""
    return accessing(call, "r")


def accessing(call: ir.Call, access: str) -> ir.Call:
    """`call` with what it does behind its addresses, `r` or `w`, which is what barriers are placed by."""
    attributes = {} if call.attrs is None else {key: call.attrs[key] for key in call.attrs.keys()}
    return ir.Call(call.op, call.args, attrs={**attributes, ACCESS: access}, ret_ty=call.ty)
