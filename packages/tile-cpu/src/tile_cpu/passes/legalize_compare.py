"""Comparisons that TVM's code generator for LLVM gets wrong, in a form that it gets right.

* It emits an ordered comparison for `a != b` on floats, so that `NaN != 1` would be false: `not (a == b)`. The other
  comparisons are false for NaN either way, which is right.
* It takes bool for a float and emits an invalid instruction: bool is compared with logic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class LegalizeCompare:
    """See the module's docstring."""

    name: ClassVar[str] = "legalize_compare"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (tuple(_ON_BOOL), _rewrite))


_ON_BOOL: dict[type, Any] = {
    E.EQ: lambda a, b: E.Or(E.And(a, b), E.Not(E.Or(a, b))),
    E.NE: lambda a, b: E.And(E.Or(a, b), E.Not(E.And(a, b))),
    E.LT: lambda a, b: E.And(E.Not(a), b),
    E.LE: lambda a, b: E.Or(E.Not(a), b),
    E.GT: lambda a, b: E.And(a, E.Not(b)),
    E.GE: lambda a, b: E.Or(a, E.Not(b)),
    E.Min: E.And,
    E.Max: E.Or,
}


def _rewrite(expr: Any, mutator: Any) -> tirx.Expr:
    expr = mutator.default_mutate(expr)
    dtype = str(expr.a.ty.dtype)
    if dtype.startswith("bool"):
        return _ON_BOOL[type(expr)](expr.a, expr.b)
    if isinstance(expr, E.NE) and dtype.startswith(("float", "bfloat")):
        return E.Not(E.EQ(expr.a, expr.b, expr.span))
    return expr
