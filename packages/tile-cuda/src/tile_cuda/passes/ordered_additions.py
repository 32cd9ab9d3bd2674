"""Nests that add a fragment to a piece of a tensor without gaps, element by element in an order of the author's.

Such a piece leaves through a shared tile that has the tensor's own order, as one run of bytes: no box, no row, no
swizzle. The author who chooses an order in which neighbouring threads write neighbouring bytes, for a workspace that
only his own kernels read, gets a tile without bank conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.uses import Uses, uses
from tile_core.layouts.tabulate import tabulate
from tile_core.ops.base import op_name
from tile_core.passes.accesses import strides, substitute
from tile_core.passes.nests import is_parallel, parallel_nest
from tile_core.passes.rebuild import loop as rebuilt_loop

ELEMENTS = 4
"""Elements of 16 bytes."""


@dataclass(frozen=True)
class OrderedAddition:
    """A nest that adds `fragment` to elements of `tensor` that lie in a row from `start` on, a multiple of 16 bytes."""

    nest: S.For
    fragment: ir.Var
    tensor: ir.Var
    start: tuple[ir.Expr, ...]
    order: ir.Expr
    """The place of an element in that row, of the nest's variables."""

    @property
    def count(self) -> int:
        """Elements of the row."""
        return prod(int(extent) for extent in parallel_nest(self.nest).extents)

    def into(self, tile: ir.Var) -> S.Stmt:
        """The nest that writes the fragment to `tile` in that order."""
        nest = parallel_nest(self.nest)
        value = tirx.BufferLoad(self.fragment, list(nest.variables))
        body: S.Stmt = S.BufferStore(tile, value, [self.order], self.nest.span)
        for one in nest.loops[::-1]:
            body = rebuilt_loop(one, body=body)
        return body


def ordered_addition(loop: S.For, facts: Analyzer) -> OrderedAddition | None:
    """What the nest at `loop` is; `None` for any other nest. `facts` know the ranges of its variables."""
    nest = parallel_nest(loop)
    call = _addition(nest.body) if is_parallel(loop) and nest.layout is None else None
    if call is None or not all(isinstance(extent, int) for extent in nest.extents):
        return None
    address, value = call.args
    element = address.args[0]
    if not _is_fragment(value, nest.variables) or str(element.source.dtype) != "float32":
        return None
    tensor, indices = element.source, list(element.indices)
    start = [
        facts.simplify(substitute(index, {var: E.IntImm(var.ty, 0) for var in nest.variables})) for index in indices
    ]
    order = _order(tensor, indices, start, facts)
    if order is None or not _is_row(order, nest.variables, nest.extents) or not _is_inside(tensor, indices, facts):
        return None
    steps = strides(tensor)
    first = sum((at * step for at, step in zip(start, steps, strict=True)), E.IntImm("int32", 0))
    if not facts.is_multiple(first, ELEMENTS):
        return None
    return OrderedAddition(loop, value.source, tensor, tuple(start), order)


def _addition(body: S.Stmt) -> Any:
    """The addition in any order that is all that `body` does."""
    if not isinstance(body, S.Evaluate) or op_name(body) != "tile.atomic_rmw":
        return None
    call = body.value
    attrs = call.attrs or {}
    return call if str(attrs.get("kind")) == "add" and not int(attrs.get("memory_order", 0)) else None


def _is_fragment(value: Any, variables: tuple[ir.Var, ...]) -> bool:
    """Whether a value is the element of a whole float32 fragment that the variables number."""
    if not isinstance(value, ir.TensorLoad) or regions.scope(value.source) != regions.FRAGMENT:
        return False
    same = len(value.indices) == len(variables) and all(
        index.same_as(var) for index, var in zip(value.indices, variables, strict=True)
    )
    return same and str(value.source.dtype) == "float32"


def _order(tensor: ir.Var, indices: list[ir.Expr], start: list[ir.Expr], facts: Analyzer) -> ir.Expr | None:
    """Elements between `start` and `indices`."""
    order: ir.Expr = E.IntImm("int32", 0)
    for index, first, stride in zip(indices, start, strides(tensor), strict=True):
        distance = facts.simplify(index - first)
        if regions.constant(distance) == 0:
            continue
        if regions.constant(stride) is None:
            return None
        order = order + distance * stride
    return order


def _is_row(order: ir.Expr, variables: tuple[ir.Var, ...], extents: tuple[Any, ...]) -> bool:
    """Whether the places are every number from 0 on, once."""
    if not set(visit.collect(order, ir.Var)) <= set(variables):
        return False
    (places,) = tabulate(variables, [order], [int(extent) for extent in extents])
    return bool(np.array_equal(np.sort(places, axis=None), np.arange(places.size)))


def _is_inside(tensor: ir.Var, indices: list[ir.Expr], facts: Analyzer) -> bool:
    return all(
        facts.can_prove(E.And(E.GE(index, E.IntImm(index.ty, 0)), E.LT(index, extent)))
        for index, extent in zip(indices, tensor.shape, strict=True)
    )


def is_only_added_to(tensor: ir.Var, body: S.Stmt, program: S.Stmt) -> bool:
    """Whether a launch of `program` does nothing with a tensor but add single elements in any order."""
    added = [stmt for stmt in visit.collect(body, S.Evaluate) if _addition(stmt) is not None]
    here = [stmt for stmt in added if stmt.value.args[0].args[0].source.same_as(tensor)]
    return uses(tensor, body, program) == Uses(addresses=len(here))
