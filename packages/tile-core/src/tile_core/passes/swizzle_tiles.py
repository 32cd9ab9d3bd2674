"""Lay the shared tiles that matrix instructions read in the order that those expect.

`partition_loops` leaves the tiles in the context's state. Every access of such a tile, by any thread, goes to its
element's new place; vectors stay whole, since an order permutes units of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.passes.base import PassContext

TILES = "swizzle_tiles"
"""The state's key: buffer to `SwizzledTile`."""
ALIGNMENT = 1024
"""Bytes: a swizzled tile begins where its pattern begins."""


@dataclass(frozen=True)
class SwizzleTiles:
    """See the module."""

    name: ClassVar[str] = "swizzle_tiles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        tiles: Mapping[ir.Var, SwizzledTile] = context.state.get(TILES, {})
        if not tiles:
            return func
        flat = {buffer: _Flat(buffer, tile) for buffer, tile in tiles.items()}

        def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
            found = flat.get(node.buffer)
            return node if found is None else S.AllocBuffer(found.buffer, node.annotations, span=node.span)

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            indices = [mutator.mutate(index) for index in node.indices]
            found = flat.get(node.source)
            return tirx.BufferLoad(node.source if found is None else found.buffer, _place(found, indices))

        def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
            indices = [mutator.mutate(index) for index in node.indices]
            value, found = mutator.mutate(node.value), flat.get(node.buffer)
            return S.BufferStore(
                node.buffer if found is None else found.buffer, value, _place(found, indices), node.span
            )

        return visit.mutate(func, (S.AllocBuffer, allocate), (S.BufferStore, store), (ir.TensorLoad, load))


class _Flat:
    """The storage of one tile: its elements in one axis."""

    def __init__(self, buffer: ir.Var, tile: SwizzledTile) -> None:
        self.tile = tile
        self._leading = [_constant(extent) for extent in buffer.shape][:-2]
        count = prod(self._leading) * tile.rows * tile.columns
        scope = regions.scope(buffer)
        self.buffer = tirx.decl_buffer(
            (count,), str(buffer.dtype), str(buffer.name), scope=scope, data_alignment=ALIGNMENT
        )

    def place(self, indices: list[ir.Expr]) -> ir.Expr:
        """The offset of an element."""
        number: ir.Expr = tirx.IntImm("int32", 0)
        for index, extent in zip(indices[:-2], self._leading, strict=True):
            number = number * extent + index
        row, column = indices[-2:]
        return number * (self.tile.rows * self.tile.columns) + self.tile.offset(row, column)


def _place(flat: _Flat | None, indices: list[ir.Expr]) -> list[ir.Expr]:
    if flat is None:
        return indices
    last = indices[-1]
    if isinstance(last, E.Ramp):
        base = flat.place([*indices[:-1], last.base])
        return [E.Ramp(base, last.stride, last.lanes)]
    return [flat.place(indices)]


def _constant(extent: ir.Expr) -> int:
    value = regions.constant(extent)
    assert value is not None
    return value
