"""Integer expressions that are affine in one variable, and the comparisons between them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, sym, tirx

from tile_core.ir.regions import constant
from tile_core.ir.visit import collect

Comparison = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def int_of(dtype: str, value: int) -> ir.Expr:
    """An integer constant."""
    return tirx.IntImm(dtype, value)


def dtype_of(expr: ir.Expr) -> str:
    """The dtype of an expression, lanes included."""
    return str(expr.ty.dtype)


def lanes_of(expr: ir.Expr) -> int:
    """The number of lanes of an expression; 1 for a scalar."""
    return int(expr.ty.dtype.lanes) if isinstance(expr.ty, ir.PrimType) else 1


def uses(expr: ir.Expr, variables: set[ir.Var]) -> bool:
    """Whether any of `variables` occurs in `expr`."""
    return any(var in variables for var in collect(expr, ir.Var))


@dataclass(frozen=True)
class Affine:
    """`coefficient * var + base`, where `base` is free of the variable."""

    coefficient: int
    base: ir.Expr


def affine(expr: ir.Expr, var: ir.Var) -> Affine | None:
    """`expr` as an affine function of `var` with a constant coefficient; `None` where it is not one."""
    parts = sym.detect_linear_equation(expr, [var])
    if len(parts) != 2:
        return None
    coefficient = constant(parts[0])
    return None if coefficient is None else Affine(coefficient, parts[1])


@dataclass(frozen=True)
class Bound:
    """What a comparison says about a variable: `var < upper`, `var >= lower` (int64), or `holds`, independent of it."""

    upper: ir.Expr | None = None
    lower: ir.Expr | None = None
    holds: ir.Expr | None = None


def solve(comparison: ir.Expr, var: ir.Var) -> Bound | None:
    """The values of `var` for which an integer comparison holds; `None` where it is not affine in `var`.

    >>> from tvm import tirx
    >>> i, n = tirx.Var("i", "int32"), tirx.Var("n", "int32")
    >>> solve(i * 2 + 1 < n, i).upper is not None
    True
    """
    if not isinstance(comparison, Comparison):
        return None
    a, b = affine(comparison.a, var), affine(comparison.b, var)
    if a is None or b is None or not dtype_of(comparison.a).startswith("int"):
        return None
    if any(collect(side.base, kind) for side in (a, b) for kind in (ir.TensorLoad, ir.Call)):
        return None
    if isinstance(comparison, tirx.GT | tirx.GE):
        a, b = b, a
    # Now a <= b, or a < b: with c * var + base for b - a it reads  c * var + base >= 0  (or >= 1).
    coefficient = b.coefficient - a.coefficient
    if coefficient == 0:
        return Bound(holds=comparison)
    base = _wide(b.base) - _wide(a.base)
    if isinstance(comparison, tirx.LT | tirx.GT):
        base = base - int_of("int64", 1)
    scale = int_of("int64", abs(coefficient))
    if coefficient < 0:
        return Bound(upper=tirx.floordiv(base, scale) + int_of("int64", 1))
    return Bound(lower=int_of("int64", 0) - tirx.floordiv(base, scale))


def _wide(expr: ir.Expr) -> ir.Expr:
    """In 64 bits, where differences of the program's own index values cannot overflow."""
    return expr if dtype_of(expr) == "int64" else tirx.Cast("int64", expr)
