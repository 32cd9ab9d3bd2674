"""Put the value of every name that stands for a vector of bool where the name is used.

TVM's analyzer, which most of its passes carry along, cannot represent a bound vector of bool. Masks are comparisons
of a ramp, which LLVM computes once anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class InlineMasks:
    """See the module's docstring."""

    name: ClassVar[str] = "inline_masks"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        masks: dict[ir.Var, ir.Expr] = {}

        def bind(stmt: S.Bind, mutator: Any) -> S.Stmt:
            dtype = getattr(stmt.var.ty, "dtype", None)
            if dtype is None or dtype.lanes == 1 or not str(dtype).startswith("bool"):
                return mutator.default_mutate(stmt)
            masks[stmt.var] = mutator.mutate(stmt.value)
            return visit.sequence([], stmt.span)

        return visit.mutate(func, (S.Bind, bind), (ir.Var, lambda var, mutator: masks.get(var, var)))
