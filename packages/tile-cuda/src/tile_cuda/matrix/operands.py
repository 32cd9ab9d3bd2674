"""Shared operands of matrix instructions: where a matrix lies in its tile, and the descriptors that say so."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx

from tile_core.dtypes import as_dtype
from tile_core.ir import regions
from tile_core.ir.analyzer import Analyzer
from tile_core.layouts.swizzle import SwizzledTile, swizzled
from tile_core.passes.insert_barriers import ACCESS
from tile_cuda.instructions.wgmma import smem_descriptor

DESCRIPTOR_ROWS = 8
"""Rows of the unit that descriptors count in: PTX ISA, "Matrix-descriptor format"."""


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix in a shared tile.

    `outer` × `depth` as the instruction sees it: `depth` is the summed axis. `depth_is_contiguous` is PTX's K-major.
    """

    region: ir.TensorRegion
    tile: SwizzledTile
    outer: int
    depth: int
    depth_is_contiguous: bool

    @property
    def buffer(self) -> ir.Var:
        """The tile."""
        return self.region.source

    def descriptor(self, outer: ir.Expr | int) -> ir.Expr:
        """The descriptor of the part that begins at index `outer` of the outer axis, at depth 0."""
        *leading, row, column = (axis.min for axis in self.region.region)
        if self.depth_is_contiguous:
            row = row + outer
        else:
            column = column + outer
        address = tirx.address_of(tirx.BufferLoad(self.buffer, [*leading, row, column]))
        return reading(
            smem_descriptor(
                address,
                leading_bytes=self.tile.strip_bytes,
                stride_bytes=DESCRIPTOR_ROWS * self.tile.span,
                swizzle=self.tile.span,
            )
        )

    def advance(self, outer: int, depth: int) -> int:
        """Bytes from a descriptor to the part `outer` and `depth` further on."""
        row, column = (outer, depth) if self.depth_is_contiguous else (depth, outer)
        return int(self.tile.offset(row, column)) * self.tile.itemsize

    def address(self, outer: ir.Expr, depth: ir.Expr) -> ir.Expr:
        """The address of an element."""
        *leading, row, column = (axis.min for axis in self.region.region)
        first, second = (outer, depth) if self.depth_is_contiguous else (depth, outer)
        return tirx.address_of(tirx.BufferLoad(self.buffer, [*leading, row + first, column + second]))

    def is_in_strips(self) -> bool:
        """Whether it begins and ends where descriptors can: at eight rows and whole strips."""
        rows, columns = (regions.constant(axis.extent) for axis in self.region.region[-2:])
        assert rows is not None and columns is not None
        return (
            not rows % DESCRIPTOR_ROWS
            and not columns % self.tile.strip
            and self.begins(DESCRIPTOR_ROWS, self.tile.strip)
        )

    def begins(self, rows: int, columns: int) -> bool:
        """Whether its first row and column are provably multiples."""
        row, column = (axis.min for axis in self.region.region[-2:])
        return _divides(rows, row) and _divides(columns, column)


def shared_matrix(region: ir.TensorRegion, *, depth_is_last: bool) -> SharedMatrix | None:
    """`region` as an operand; `None` where its tile cannot be swizzled."""
    buffer = region.source
    rows, columns = (regions.constant(extent) for extent in list(buffer.shape)[-2:])
    own_rows, own_columns = (regions.constant(axis.extent) for axis in region.region[-2:])
    dtype = as_dtype(str(buffer.dtype))
    if rows is None or columns is None or own_rows is None or own_columns is None or dtype.bits not in (8, 16, 32):
        return None
    tile = swizzled(rows, columns, dtype.bits // 8)
    if tile is None:
        return None
    outer, depth = (own_rows, own_columns) if depth_is_last else (own_columns, own_rows)
    return SharedMatrix(region, tile, outer, depth, depth_is_last)


def reading(call: ir.Call) -> ir.Call:
    """`call` as one that only reads behind its addresses."""
    return accessing(call, "r")


def accessing(call: ir.Call, access: str) -> ir.Call:
    """`call` with what it does behind its addresses, `r` or `w`, which is what barriers are placed by."""
    attributes = {} if call.attrs is None else {key: call.attrs[key] for key in call.attrs.keys()}
    return ir.Call(call.op, call.args, attrs={**attributes, ACCESS: access}, ret_ty=call.ty)


def _divides(factor: int, value: ir.Expr) -> bool:
    facts = Analyzer().modular_set(value)
    return int(facts.coeff) % factor == 0 and int(facts.base) % factor == 0
