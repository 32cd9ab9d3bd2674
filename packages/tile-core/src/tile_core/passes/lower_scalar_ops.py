"""Expand the pure scalar functions of `ops/scalar.py` into plain nodes, except those that the target prints itself.

Operands that are not names or constants are bound first: an expansion names its operands several times, and nested
ones would grow exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.ops.scalar import CAST, SCALARS, expand_call
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class LowerScalarOps:
    """`native` are names of scalar ops that stay calls, for a backend that has them in hardware."""

    native: frozenset[str] = frozenset()
    name: ClassVar[str] = "lower_scalar_ops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (ir.Call, self._expand))

    def _expand(self, call: ir.Call, mutator: Any) -> ir.Expr:
        rewritten = mutator.default_mutate(call)
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        if name in self.native or (name not in SCALARS and name != CAST):
            return rewritten
        names: list[tuple[ir.Var, ir.Expr]] = []
        operands = []
        for argument in rewritten.args:
            if not isinstance(argument, ir.Var | E.FloatImm | E.IntImm):
                var = tirx.Var(f"operand{len(names)}", str(argument.ty.dtype))
                names.append((var, argument))
                argument = var
            operands.append(argument)
        expanded = expand_call(rewritten, operands)
        if expanded is None:
            return rewritten
        result = mutator.mutate(expanded)
        for var, value in reversed(names):
            result = E.Let(var, value, result)
        return result
