"""The shared tiles that matrix instructions of a launch read, or their operands are computed from, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.matrix import PRODUCTS, MatrixUnits, Multiplier
from tile_core.passes.thread_parts import Part, parts_of
from tile_cuda.matrix.mma import WarpProduct
from tile_cuda.matrix.product import Product
from tile_cuda.passes.operand_sources import operand_sources


def matrix_tiles(launch: launch_ir.Launch, units: MatrixUnits, capabilities: Any) -> Mapping[ir.Var, SwizzledTile]:
    """Shared tiles by buffer. A tile that has several names is none of them."""
    found: dict[ir.Var, SwizzledTile] = {}
    for part, _stmt, product in _products(launch, units, capabilities):
        found.update({**operand_sources(product, part.body), **product.tiles})
    return found


def products_beside_threads(launch: launch_ir.Launch, units: MatrixUnits, capabilities: Any) -> list[S.Evaluate]:
    """The statements that multiply tiles which no thread loads: instructions read them through descriptors."""
    found = _products(launch, units, capabilities)
    return [stmt for _part, stmt, product in found if not isinstance(product, WarpProduct)]


def _products(
    launch: launch_ir.Launch, units: MatrixUnits, capabilities: Any
) -> Iterator[tuple[Part, S.Evaluate, Product]]:
    views = visit.collect(launch.body, S.DeclBuffer)
    parts, common = parts_of(launch)
    elsewhere = common.union({declared.buffer for declared in views}, *map(viewed, views))
    for part in parts:
        multiplier = Multiplier(units, part.threads, capabilities)
        for stmt in visit.collect(part.body, S.Evaluate):
            if op_name(stmt) in PRODUCTS:
                product = multiplier.of(view(stmt, OPS), elsewhere)
                if isinstance(product, Product):
                    yield part, stmt, product
