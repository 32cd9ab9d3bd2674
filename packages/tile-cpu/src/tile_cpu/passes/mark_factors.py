"""Say which tiles of bfloat16 are read by nothing but products that take subnormal numbers for zeros.

The instruction that rounds a vector of float32 to bfloat16 takes them for zeros too, where a conversion keeps them. In
such a tile nobody can tell, and the weights of attention, which are one, cost a third of what they cost otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.uses import Uses, uses
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.ops.gemm import choose


@dataclass(frozen=True)
class MarkFactors:
    """Leaves the tiles in the state of the pipeline, for `import_functions`. Runs before `lower_tile_ops`."""

    name: ClassVar[str] = "mark_factors"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function as it is."""
        facts = facts_of(context.capabilities)
        if facts.bf16_dot:
            tiles = [alloc.buffer for alloc in visit.collect(func.body, S.AllocBuffer)]
            narrow = (tile for tile in tiles if str(tile.dtype) == "bfloat16")
            context.state[self.name] = frozenset(tile for tile in narrow if _is_factor(tile, func, facts))
        return func


def _is_factor(tile: ir.Var, func: tirx.PrimFunc, facts: CpuFacts) -> bool:
    """Whether the function does nothing with `tile` but write elements or copies to it, and multiply it."""
    found = uses(tile, func.body)
    known = sum(_known(tile, stmt, facts) for stmt in visit.statements(func.body))
    return found == Uses(stores=found.stores, operands=known)


def _known(tile: ir.Var, stmt: S.Stmt, facts: CpuFacts) -> int:
    """How often a statement copies to `tile`, or multiplies it by instructions for bfloat16."""
    name = op_name(stmt)
    if name not in ("tile.copy", "tile.fill", "tile.gemm"):
        return 0
    call = view(stmt, OPS)
    if name != "tile.gemm":
        return int(call.region("dst").source.same_as(tile))
    product = choose(call, facts)
    if product is None or product.kind != "bf16":
        return 0
    return sum(call.region(side).source.same_as(tile) for side in "ab")
