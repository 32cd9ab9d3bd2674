"""Fetch the next tiles of a loop while the current ones are multiplied.

A loop that copies tiles from tensors and multiplies them would wait for memory in every copy: rows of a tile are far
apart, so the hardware does not see the next one coming. The regions that the next iteration will copy are attached
to the `tile.gemm` of this one (attribute `prefetch`), whose lowering spreads the prefetches over its micro-kernels.
This is what `num_stages` asks for; a tile needs no second copy for it here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext

PREFETCH = "prefetch"
"""The attribute of `tile.gemm`: regions of tensors that will be read soon."""


@dataclass(frozen=True)
class PlanPrefetch:
    """See the module's docstring. Runs on tile ops."""

    name: ClassVar[str] = "plan_prefetch"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.For, _loop))


def _loop(loop: S.For, mutator: Any) -> S.Stmt:
    loop = mutator.default_mutate(loop)
    if loop.kind != S.ForKind.SERIAL:
        return loop
    steps = list(loop.body.seq) if isinstance(loop.body, S.SeqStmt) else [loop.body]
    names = [op_name(step) for step in steps]
    copies = [step for step, name in zip(steps, names, strict=True) if name == "tile.copy"]
    coming = [region for copy in copies for region in _next(loop, copy)]
    if not coming or "tile.gemm" not in names:
        return loop
    at = names.index("tile.gemm")
    gemm = view(steps[at], OPS)
    steps[at] = replace(gemm, attrs={**gemm.attrs, PREFETCH: coming}).to_stmt()
    return rebuild.loop(loop, body=S.SeqStmt(steps, loop.body.span))


def _next(loop: S.For, copy: S.Evaluate) -> list[ir.TensorRegion]:
    """The region that `copy` will read from a tensor in the next iteration, if it is another one."""
    source = view(copy, OPS).region("src")
    if regions.scope(source.source) != regions.GLOBAL or loop.loop_var not in visit.collect(source, ir.Var):
        return []
    step = loop.step if loop.step is not None else tirx.IntImm(str(loop.loop_var.ty.dtype), 1)
    following = loop.loop_var + step

    def advance(var: ir.Var, _mutator: Any) -> ir.Expr:
        return following if var.same_as(loop.loop_var) else var

    starts = [visit.mutate(axis.min, (ir.Var, advance)) for axis in source.region]
    return [regions.region(source.source, starts, [axis.extent for axis in source.region])]
