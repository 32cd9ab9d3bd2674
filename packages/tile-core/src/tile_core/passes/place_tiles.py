"""Shared tiles lie as their author says: `T.annotate_layout` with a `T.Layout`, on targets whose blocks have threads.

`mark_placed_tiles` runs on tile ops: copies of such a tile are made by the block's threads, since a copy engine knows
one order only, and a product that instructions would compute prescribes the order of its tiles itself. `place_tiles`
runs when the ops are loops, before these are divided: each access moves to its element's place, so that vectors and
guards are of the real addresses. A layout that is the plain order, or that of matrix instructions, needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.layouts import LayoutError
from tile_core.ir import regions, visit
from tile_core.ir.spans import from_tvm
from tile_core.ir.views import viewed
from tile_core.layouts import Layout
from tile_core.layouts.swizzle import UNIT_BYTES, swizzled
from tile_core.ops import OPS
from tile_core.ops.asynchronous import ASYNCHRONOUS_OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.copy import BY_THREADS, COPY
from tile_core.ops.gemm import GEMM
from tile_core.ops.threads import called, is_instruction
from tile_core.passes.base import PassContext
from tile_core.passes.nests import LAYOUT

ADDRESS_OF = "tirx.address_of"
_ENGINES = frozenset(op.name for op in ASYNCHRONOUS_OPS)


@dataclass(frozen=True)
class MarkPlacedTiles:
    """See the module.

    Raises:
        LayoutError: a placed tile that has another name, or that a product or a copy engine takes.
    """

    name: ClassVar[str] = "mark_placed_tiles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        tiles = placed_tiles(func.body)
        if not tiles:
            return func
        for declared in visit.collect(func.body, S.DeclBuffer):
            for tile in viewed(declared):
                if tile in tiles:
                    raise _refusal(tile, "has another name", "annotate a tile without views", declared.span)

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            return _marked(stmt, tiles)

        return visit.mutate(func, (S.Evaluate, evaluate))


@dataclass(frozen=True)
class PlaceTiles:
    """See the module.

    Raises:
        LayoutError: neighbours that are accessed at once and do not lie side by side.
    """

    name: ClassVar[str] = "place_tiles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        layouts = placed_tiles(func.body)
        if not layouts:
            return func
        placed = {tile: _Placed(tile, layout) for tile, layout in layouts.items()}

        def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
            found = placed.get(node.buffer)
            return node if found is None else S.AllocBuffer(found.memory, node.annotations, span=node.span)

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            indices = [mutator.mutate(index) for index in node.indices]
            found = placed.get(node.source)
            return tirx.BufferLoad(node.source, indices) if found is None else found.at(indices)

        def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
            indices, value = [mutator.mutate(index) for index in node.indices], mutator.mutate(node.value)
            found = placed.get(node.buffer)
            if found is None:
                return S.BufferStore(node.buffer, value, indices, node.span)
            return S.BufferStore(found.memory, value, [found.place(indices)], node.span)

        def evaluate(stmt: S.Evaluate, mutator: Any) -> S.Stmt:
            _check_neighbours(stmt, placed)
            return mutator.default_mutate(stmt)

        handlers = ((S.AllocBuffer, allocate), (S.BufferStore, store), (ir.TensorLoad, load), (S.Evaluate, evaluate))
        return visit.mutate(func, *handlers)


def placed_tiles(body: S.Stmt) -> dict[ir.Var, Layout]:
    """The shared tiles whose author wants another order than the plain one and that of matrix instructions."""
    found = {}
    for attr in visit.collect(body, S.AttrStmt):
        if attr.attr_key == LAYOUT and "index_map" in attr.value.attrs and regions.scope(attr.node) in regions.SHARED:
            layout = Layout.__new__(Layout)
            layout.shape = tuple(int(extent) for extent in attr.node.shape)
            layout.map = attr.value.attrs["index_map"]
            if not _is_known(attr.node, layout):
                found[attr.node] = layout
    return found


def _is_known(tile: ir.Var, layout: Layout) -> bool:
    """Whether a layout is one that the compiler gives to tiles by itself."""
    plain = np.arange(prod(layout.shape)).reshape(layout.shape)
    if np.array_equal(layout.flat, plain):
        return True
    if len(layout.shape) != 2 or int(tile.dtype.bits) % 8:
        return False
    own = swizzled(*layout.shape, int(tile.dtype.bits) // 8)
    return own is not None and np.array_equal(layout.flat, own.offset(*np.indices(layout.shape)))


def _marked(stmt: S.Evaluate, tiles: Mapping[ir.Var, Layout]) -> S.Stmt:
    name = op_name(stmt)
    if name not in OPS:
        return stmt
    call = view(stmt, OPS)
    used = [tile for tile in tiles if any(_is_of(value, tile) for value in call.args.values())]
    if not used:
        return stmt
    if call.op is GEMM:
        raise _refusal(used[0], "is read by a product, which orders its tiles", "leave the annotation out", call.span)
    if name in _ENGINES:
        raise _refusal(used[0], "is moved by a copy engine, which knows one order", "use T.copy", call.span)
    return replace(call, attrs={**call.attrs, BY_THREADS: 1}).to_stmt() if _is_copy(call) else stmt


def _is_copy(call: OpCall) -> bool:
    return call.op is COPY


def _is_of(value: ir.Expr, tile: ir.Var) -> bool:
    return isinstance(value, ir.TensorRegion) and value.source.same_as(tile)


def _refusal(tile: ir.Var, why: str, remedy: str, span: ir.Span | None) -> LayoutError:
    return LayoutError(f"the layout of {tile.name} cannot be kept: it {why}", remedy=remedy, span=from_tvm(span))


class _Placed:
    """The memory of one tile."""

    def __init__(self, tile: ir.Var, layout: Layout) -> None:
        self.layout = layout
        size = prod(layout.output_shape)
        self.memory = tirx.decl_buffer((size,), str(tile.dtype), str(tile.name), scope=regions.scope(tile))

    def place(self, indices: list[ir.Expr]) -> ir.Expr:
        """The index of an element in memory."""
        found: ir.Expr = tirx.IntImm("int32", 0)
        for at, extent in zip(self.layout.map_indices(indices), self.layout.output_shape, strict=True):
            found = found * extent + at
        return found

    def at(self, indices: list[ir.Expr]) -> ir.Expr:
        """An element."""
        return tirx.BufferLoad(self.memory, [self.place(indices)])

    def keeps(self, count: int) -> bool:
        """Whether every `count` neighbours, from a multiple of it on, are neighbours at a multiple of it in memory."""
        columns = self.layout.shape[-1]
        if count <= 1:
            return True
        if columns % count:
            return False
        runs = self.layout.flat.reshape(-1, count)
        return bool((runs == runs[:, :1] + np.arange(count)).all() and (runs[:, 0] % count == 0).all())


def _check_neighbours(stmt: S.Evaluate, placed: Mapping[ir.Var, _Placed]) -> None:
    """What accesses several elements behind one address finds them there."""
    for call in visit.collect(stmt, ir.Call):
        for address in (each for each in call.args if called(each) == ADDRESS_OF):
            (tile,) = (load.source for load in visit.collect(address.args[0], ir.TensorLoad)[:1])
            found = placed.get(tile)
            if found is not None and not found.keeps(_elements(call, tile)):
                raise _refusal(
                    tile, f"is accessed {_elements(call, tile)} elements at once", "keep such neighbours", stmt.span
                )


def _elements(call: ir.Call, tile: ir.Var) -> int:
    if call.attrs is not None and "elements" in call.attrs:
        return int(call.attrs["elements"])
    return UNIT_BYTES * 8 // int(tile.dtype.bits) if is_instruction(call) else 1
