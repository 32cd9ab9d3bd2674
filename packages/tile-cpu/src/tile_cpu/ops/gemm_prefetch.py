"""Prefetches of the next tiles, spread over the micro-kernels that multiply the current ones.

A core has few buffers for lines on their way: prefetches issued all at once would stop it as the copies do.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.regions import constant
from tile_core.ops.build import Tile, int32
from tile_cpu.llvm.functions import Function
from tile_cpu.llvm.prefetch import prefetch_rows


@dataclass(frozen=True)
class Prefetch:
    """The regions to fetch, in `shares` parts of about equal size."""

    tiles: tuple[Tile, ...]
    shares: int

    def part(self, number: ir.Expr, functions: list[Function]) -> list[S.Stmt]:
        """The calls that fetch part `number`; what they need is added to `functions`."""
        calls = [self._rows(tile, number, functions) for tile in self.tiles]
        return [call for call in calls if call is not None]

    def _rows(self, tile: Tile, number: ir.Expr, functions: list[Function]) -> S.Stmt | None:
        shape = tile.shape
        if None in shape or any(extent != 1 for extent in shape[:-2]) or not _contiguous(tile):
            return None
        rows, columns = (shape[-2] if tile.rank > 1 else 1), shape[-1]
        assert rows is not None and columns is not None
        each = -(-rows // self.shares)
        function = prefetch_rows(each, columns * tile.dtype.bits // 8)
        functions.append(function)
        first = number * each
        place = [*[int32(0)] * (tile.rank - 2), first, int32(0)] if tile.rank > 1 else [int32(0)]
        call = function.call(tirx.address_of(tile.load(place)), _row_bytes(tile))
        return S.IfThenElse(first < rows, call, None) if each * self.shares > rows else call


def _contiguous(tile: Tile) -> bool:
    return not tile.buffer.strides or constant(tile.buffer.strides[-1]) == 1


def _row_bytes(tile: Tile) -> ir.Expr:
    """Bytes between rows, as int64."""
    if tile.rank == 1:
        return tirx.IntImm("int64", 0)
    stride = tile.buffer.strides[-2] if tile.buffer.strides else tile.buffer.shape[-1]
    return tirx.Cast("int64", stride) * tirx.IntImm("int64", tile.dtype.bits // 8)
