"""Shared operands of matrix instructions, and the descriptors that say where a matrix lies in its tile."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx

from tile_core.ir import regions
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.passes import matrix_operands
from tile_core.passes.matrix_operands import accessing, reading
from tile_cuda.instructions.descriptors import smem_descriptor

__all__ = ["DESCRIPTOR_ROWS", "SharedMatrix", "accessing", "reading", "shared_matrix"]

DESCRIPTOR_ROWS = 8
"""Rows of the unit that descriptors count in: PTX ISA, "Matrix-descriptor format"."""


@dataclass(frozen=True)
class SharedMatrix(matrix_operands.SharedMatrix):
    """A matrix that descriptors may name. `depth_is_contiguous` is PTX's K-major."""

    @property
    def order(self) -> SwizzledTile:
        """The swizzled order, of a matrix that `is_in_strips`."""
        assert self.tile is not None
        return self.tile

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
                leading_bytes=self.order.strip_bytes,
                stride_bytes=DESCRIPTOR_ROWS * self.order.span,
                swizzle=self.order.span,
            )
        )

    def advance(self, outer: int, depth: int) -> int:
        """Bytes from a descriptor to the part `outer` and `depth` further on."""
        row, column = (outer, depth) if self.depth_is_contiguous else (depth, outer)
        return int(self.order.offset(row, column)) * self.order.itemsize

    def is_in_strips(self) -> bool:
        """Whether it begins and ends where descriptors can: at eight rows and whole strips."""
        if self.tile is None:
            return False
        rows, columns = (regions.constant(axis.extent) for axis in self.region.region[-2:])
        assert rows is not None and columns is not None
        return (
            not rows % DESCRIPTOR_ROWS
            and not columns % self.tile.strip
            and self.begins(DESCRIPTOR_ROWS, self.tile.strip)
        )


def shared_matrix(region: ir.TensorRegion, *, depth_is_last: bool) -> SharedMatrix | None:
    """`region` as an operand; `None` where it cannot be one."""
    return matrix_operands.shared_matrix(SharedMatrix, region, depth_is_last=depth_is_last)
