"""The shared tiles from which an operand in registers is computed or copied: weights of four bits, bytes, queries.

Lanes hold an operand of instructions by rows: four have one row, the next four the next. So they read the tile that it
comes from by rows too, at one distance, which is the same bank wherever rows are whole spans. In the order of an
operand in shared memory they lie apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.layouts.swizzle import SwizzledTile, swizzled
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.ops.gemm import transposed
from tile_cuda.matrix.product import Product


def operand_sources(product: Product, body: S.Stmt) -> Mapping[ir.Var, SwizzledTile]:
    """The tiles whose rows are rows of an operand that `body` computes, and the order that suits them."""
    found: dict[ir.Var, SwizzledTile] = {}
    for side, operand in (("a", product.a), ("b", product.b)):
        # Only an operand that is summed along its rows has lanes side by side along them.
        if operand is not None or transposed(product.call, side) == (side == "a"):
            continue
        fragment = product.call.region(side).source
        for loop in visit.collect(body, S.For):
            stores = visit.collect(loop.body, S.BufferStore) if loop.kind == S.ForKind.PARALLEL else []
            for store in stores:
                if store.buffer.same_as(fragment):
                    found.update(_read_by_rows(store, loop))
        for stmt in visit.collect(body, S.Evaluate):
            found.update(_copied(stmt, fragment))
    return found


def _copied(stmt: S.Evaluate, fragment: ir.Var) -> Mapping[ir.Var, SwizzledTile]:
    """The whole tile that a statement copies to a whole fragment."""
    if op_name(stmt) != "tile.copy":
        return {}
    src, dst = (view(stmt, OPS).region(name) for name in ("src", "dst"))
    are_whole = dst.source.same_as(fragment) and regions.is_whole(dst) and regions.is_whole(src)
    if not are_whole or regions.scope(src.source) not in regions.SHARED or len(src.source.shape) != 2:
        return {}
    order = _order(src.source)
    return {} if order is None else {src.source: order}


def _read_by_rows(store: S.BufferStore, loop: S.For) -> Mapping[ir.Var, SwizzledTile]:
    """Of the tiles that are read in `loop`: names may stand between a load and the store."""
    row, column = list(store.indices)[-2:]
    found = {}
    for load in visit.collect(loop.body, ir.TensorLoad):
        tile, indices = load.source, list(load.indices)
        if regions.scope(tile) not in regions.SHARED or len(indices) != 2 or not _moves(indices[0], row):
            continue
        if not _moves(indices[1], row) and _moves(indices[1], column) and not _moves(indices[0], column):
            order = _order(tile)
            if order is not None:
                found[tile] = order
    return found


def _moves(index: ir.Expr, variable: ir.Expr) -> bool:
    return any(found.same_as(variable) for found in visit.collect(index, ir.Var))


def _order(tile: ir.Var) -> SwizzledTile | None:
    rows, columns = (regions.constant(extent) for extent in tile.shape)
    bits = as_dtype(str(tile.dtype)).bits
    return swizzled(rows, columns, bits // 8) if rows and columns and bits % 8 == 0 else None
