"""A result that a pipelined loop begins at zero is begun by the loop's first product, not by its threads.

While 128 registers a thread are cleared the tensor cores stand still, 0.3 % of a product of 4096³ on an H200; the
instructions begin at zero for nothing. That is right where the loop has an iteration, and its one product of warpgroups
is the first to touch the result in each. Loops with several products keep theirs: those may be void in the first
iteration (`void_products.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ops import OPS
from tile_core.ops.base import view
from tile_cuda.passes.index_facts import index_facts
from tile_cuda.passes.pipelines import Pipeline, statements_of
from tile_cuda.passes.tensor_copies import touched
from tile_cuda.passes.void_products import cleared_by, statements_before


def begun_by_products(
    launch: launch_ir.Launch, pipelines: Sequence[Pipeline], overlaps: Callable[[S.Stmt], bool]
) -> launch_ir.Launch:
    """The launch whose pipelines' first products begin their results.

    `overlaps(stmt)`: whether a statement is a product of warpgroups.
    """
    facts = index_facts(launch)
    replacements: dict[S.Stmt, S.Stmt] = {}
    for pipeline in pipelines:
        loop = pipeline.loop
        if facts.can_prove(E.GT(loop.extent, E.IntImm(loop.extent.ty, 0))):
            replacements |= _begun(launch, loop, overlaps)
    if not replacements:
        return launch

    def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        return next((new for old, new in replacements.items() if stmt.same_as(old)), stmt)

    return replace(launch, body=visit.mutate(launch.body, (S.Evaluate, evaluate)))


def _begun(launch: launch_ir.Launch, loop: S.For, overlaps: Callable[[S.Stmt], bool]) -> dict[S.Stmt, S.Stmt]:
    """The product that begins its result instead of what cleared it; nothing where that is not the same."""
    statements = statements_of(loop)
    products = [stmt for stmt in statements if overlaps(stmt)]
    if len(products) != 1:
        return {}
    (product,) = products
    call = view(product, OPS)
    result = call.region("c").source
    first = next(stmt for stmt in statements if result in touched(stmt))
    clearing = cleared_by(result, statements_before(launch, loop))
    if not first.same_as(product) or clearing is None or regions.constant(call.args["clear_accum"]) != 0:
        return {}
    begins = replace(call, args={**call.args, "clear_accum": E.EQ(loop.loop_var, loop.min)})
    return {product: begins.to_stmt(), clearing: visit.sequence([], clearing.span)}
