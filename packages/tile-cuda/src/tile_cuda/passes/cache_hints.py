"""How long the second-level cache should keep what the copy engine loads.

A tensor of which every byte goes to one block, once, gains nothing by staying in the cache: weights that a few rows are
multiplied with. Loaded like anything else it drives out what the cache holds, and data that was written must go to
memory for it first. So its lines are the first to go, which took 10 to 16 % off such products on an H200; where it
would have stayed, because nothing else wanted its place, it still does (docs/verified.md). A tensor that is small
beside the cache drives out little, and one that is many times larger makes everything go anyway: attention that
decodes lost 5 % there. The author's own wish (`T.copy(…, eviction_policy=…)`) comes before all that.

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
LEAST, MOST = 1 / 2, 4
"""Sizes of a tensor, in those of the cache, from and up to which it is the first to leave."""


def with_hints(pipeline: Pipeline, launch: launch_ir.Launch, facts: Analyzer, cache_bytes: int) -> Pipeline:
    """The pipeline with what its copies tell a cache of `cache_bytes` bytes, 0 where its size is not known."""
    walked = _walked(launch, pipeline.loop)

    def hinted(copy: TensorCopy) -> TensorCopy:
        wish = launch.options.get(f"{EVICTION}{copy.tensor.name}")
        if wish is not None:
            return replace(copy, keep=EVICTIONS[wish])
        streams = 0 < LEAST * cache_bytes <= _bytes(copy.tensor) <= MOST * cache_bytes
        passes = streams and _is_loaded_once(copy, walked, _names(launch), facts)
        return replace(copy, keep=FIRST) if passes else copy

    groups = tuple(replace(group, copies=tuple(map(hinted, group.copies))) for group in pipeline.groups)
    return replace(pipeline, groups=groups)


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
