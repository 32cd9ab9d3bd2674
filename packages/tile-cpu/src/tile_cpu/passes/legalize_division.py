"""Define integer division by zero, and of the least integer by -1: both end the process on x86.

A quotient or remainder by zero is 0, as in numpy; the least integer divided by -1 wraps to itself, with remainder 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes.base import PassContext

_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)


@dataclass(frozen=True)
class LegalizeDivision:
    """See the module's docstring. Divisions by a constant other than 0 and -1 are left alone."""

    name: ClassVar[str] = "legalize_division"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (_DIVISIONS, _rewrite))


def _rewrite(expr: Any, mutator: Any) -> ir.Expr:
    expr = mutator.default_mutate(expr)
    dtype = expr.ty.dtype
    scalar = str(dtype).removesuffix(f"x{dtype.lanes}") if dtype.lanes > 1 else str(dtype)
    divisor = constant(expr.b.value if isinstance(expr.b, E.Broadcast) else expr.b)
    if not scalar.startswith(("int", "uint")) or divisor not in (None, 0, -1):
        return expr

    def number(value: int) -> ir.Expr:
        node = tirx.const(value, scalar)
        return node if dtype.lanes == 1 else E.Broadcast(node, dtype.lanes)

    def divide(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        by_zero = E.EQ(b, number(0))
        unsafe = by_zero
        if scalar.startswith("int"):
            unsafe = E.Or(by_zero, E.EQ(b, number(-1)))
            quotient = isinstance(expr, E.Div | E.FloorDiv)
            by_minus_one = E.Sub(number(0), a) if quotient else number(0)
        else:
            by_minus_one = number(0)
        safe = type(expr)(a, E.Select(unsafe, number(1), b))
        return E.Select(by_zero, number(0), E.Select(unsafe, by_minus_one, safe))

    a, b = tirx.Var("dividend", expr.a.ty), tirx.Var("divisor", expr.b.ty)
    return E.Let(a, expr.a, E.Let(b, expr.b, divide(a, b)))
