"""How long the second-level cache should keep what the copy engine loads.

Tensors of which every byte goes to one block, once, gain nothing by staying in the cache: weights that a few rows are
multiplied with. Loaded like anything else they drive out what the cache holds, and data that was written must go to
memory for it first. So their lines are the first to go, which took 4 to 18 % off such kernels on an H200. Where they
would have stayed, because nothing else wanted their place, they still do. Less than a quarter of the cache drives out
little. Much more than the cache makes everything go anyway: at five times its size the hint gave nothing, at ten it
cost 4 % (docs/verified.md). The author's own wish (`T.copy(…, eviction_policy=…)`) comes before all that.

It is a hint: nothing here changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.launch import EVICTION, EVICTIONS
from tile_core.ir.regions import constant
from tile_core.passes.accesses import substitute
from tile_cuda.passes.pipelines import Pipeline
from tile_cuda.passes.sharing import around
from tile_cuda.passes.tensor_copies import TensorCopy

FIRST = "evict_first"
LEAST, MOST = 1 / 4, 4
"""Sizes of what a launch loads once, in those of the cache, from and up to which it is the first to leave."""


def with_hints(
    pipelines: Sequence[Pipeline], launch: launch_ir.Launch, facts: Analyzer, cache_bytes: int
) -> list[Pipeline]:
    """The launch's pipelines with what their copies tell a cache of `cache_bytes` bytes, 0 where that is not known."""
    names = _names(launch)
    copies = [(copy, pipeline.loop) for pipeline in pipelines for copy in pipeline.copies]
    stays = {copy.tensor for copy, loop in copies if not _is_loaded_once(copy, _walked(launch, loop), names, facts)}
    streams = {copy.tensor for copy, _loop in copies if _bytes(copy.tensor)} - stays
    passes = 0 < LEAST * cache_bytes <= sum(map(_bytes, streams)) <= MOST * cache_bytes

    def hinted(copy: TensorCopy) -> TensorCopy:
        wish = launch.options.get(f"{EVICTION}{copy.tensor.name}")
        if wish is not None:
            return replace(copy, keep=EVICTIONS[wish])
        return replace(copy, keep=FIRST) if passes and copy.tensor in streams else copy

    def told(pipeline: Pipeline) -> Pipeline:
        groups = (replace(group, copies=tuple(map(hinted, group.copies))) for group in pipeline.groups)
        return replace(pipeline, groups=tuple(groups))

    return [told(pipeline) for pipeline in pipelines]


def _bytes(tensor: ir.Var) -> int:
    """The size of a tensor, 0 where only a call tells it."""
    return prod(constant(extent) or 0 for extent in tensor.shape) * as_dtype(str(tensor.dtype)).bits // 8


def _walked(launch: launch_ir.Launch, loop: S.For) -> list[ir.Var]:
    """The indices and counters under which a copy of the loop is made: those that have more than one value."""
    blocks = zip(launch.grid_vars, launch.grid_extents, strict=True)
    found = [var for var, extent in blocks if constant(extent) != 1]
    return found + [part.loop_var for part in around(launch.body, loop) if isinstance(part, S.For)]


def _names(launch: launch_ir.Launch) -> dict[ir.Var, ir.Expr]:
    """What the names that the launch binds stand for, in indices and counters."""
    found: dict[ir.Var, ir.Expr] = {}
    for bind in visit.collect(launch.body, S.Bind):
        found[bind.var] = substitute(bind.value, found)
    return found


def _is_loaded_once(copy: TensorCopy, walked: Sequence[ir.Var], names: dict[ir.Var, ir.Expr], facts: Analyzer) -> bool:
    """Whether another block or iteration loads other bytes: each index moves the box by its extent along some axis."""
    starts = [(substitute(axis.min, names), axis.extent) for axis in copy.source.region]
    return all(any(_moves(start, extent, var, facts) for start, extent in starts) for var in walked)


def _moves(start: ir.Expr, extent: ir.Expr, var: ir.Var, facts: Analyzer) -> bool:
    further = substitute(start, {var: var + E.IntImm(var.ty, 1)})
    return facts.can_prove(E.GE(further - start, extent))
