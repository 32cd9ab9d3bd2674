"""Integer division in terms of the machine's, which truncates, with each operand computed once.

* Floor division and modulo correct the truncated quotient where the signs differ. Nothing is corrected where the
  ranges of loops prove the operands not negative, and a power of two becomes a shift or a mask.
* Division by zero, and of the least integer by -1, end the process on x86. A quotient or remainder by zero is 0, as
  in numpy; the least integer divided by -1 wraps to itself, with remainder 0.

TVM has a lowering of its own (`LowerIntrin`), which repeats the operands in its result: nested divisions grow
exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import Ranges

_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)
_QUOTIENTS = (E.Div, E.FloorDiv)
_FLOORING = (E.FloorDiv, E.FloorMod)


@dataclass(frozen=True)
class LegalizeDivision:
    """See the module's docstring."""

    name: ClassVar[str] = "legalize_division"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        divider = _Divider(Ranges(func))
        body = visit.mutate(func.body, (S.For, divider.loop), (S.Bind, divider.bind), (_DIVISIONS, divider.division))
        return func.with_body(body, func.span)


@dataclass(frozen=True)
class _Integers:
    """Nodes of one integer dtype."""

    dtype: Any

    @property
    def lanes(self) -> int:
        return int(self.dtype.lanes)

    @property
    def scalar(self) -> str:
        text = str(self.dtype)
        return text.removesuffix(f"x{self.lanes}") if self.lanes > 1 else text

    @property
    def signed(self) -> bool:
        return self.scalar.startswith("int")

    def number(self, value: int) -> ir.Expr:
        node = tirx.const(value, self.scalar)
        return node if self.lanes == 1 else E.Broadcast(node, self.lanes)


class _Divider:
    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        bounds = {name: mutator.mutate(getattr(loop, name)) for name in ("min", "extent")}
        self._ranges.enter_loop(loop)
        return rebuild.loop(loop, **bounds, body=mutator.mutate(loop.body))

    def bind(self, bind: S.Bind, mutator: Any) -> S.Stmt:
        self._ranges.bind(bind)
        return mutator.default_mutate(bind)

    def division(self, expr: Any, mutator: Any) -> ir.Expr:
        integers = _Integers(expr.ty.dtype)
        if not integers.scalar.startswith(("int", "uint")):
            return mutator.default_mutate(expr)
        truncates = not isinstance(expr, _FLOORING) or not integers.signed or self._is_natural(expr.a, expr.b)
        a, b = mutator.mutate(expr.a), mutator.mutate(expr.b)
        known = constant(b.value if isinstance(b, E.Broadcast) else b)
        quotient = isinstance(expr, _QUOTIENTS)
        if known is not None and (known > 0 or known < -1):
            return _by_constant(integers, a, b, known, quotient, truncates)
        dividend, divisor = tirx.Var("dividend", a.ty), tirx.Var("divisor", b.ty)
        result = _by_anything(integers, dividend, divisor, quotient, truncates)
        return E.Let(dividend, a, E.Let(divisor, b, result))

    def _is_natural(self, *operands: ir.Expr) -> bool:
        """Whether both operands of a scalar division are proven not to be negative."""
        if any(operand.ty.dtype.lanes > 1 for operand in operands):
            return False
        return all(self._ranges.proves(E.GE(operand, E.IntImm(operand.ty, 0))) for operand in operands)


def _by_constant(integers: _Integers, a: ir.Expr, b: ir.Expr, divisor: int, quotient: bool, truncates: bool) -> ir.Expr:
    if divisor > 0 and divisor & (divisor - 1) == 0 and not (truncates and integers.signed):
        if quotient:
            return a if divisor == 1 else tirx.shift_right(a, integers.number(divisor.bit_length() - 1))
        return tirx.bitwise_and(a, integers.number(divisor - 1))
    if truncates:
        return (E.Div if quotient else E.Mod)(a, b)
    dividend, rest = tirx.Var("dividend", a.ty), tirx.Var("rest", a.ty)
    wrong = (E.LT if divisor > 0 else E.GT)(rest, integers.number(0))
    if quotient:
        whole = E.Div(dividend, b)
        result = E.Select(wrong, E.Sub(whole, integers.number(1)), whole)
    else:
        result = E.Select(wrong, E.Add(rest, b), rest)
    return E.Let(dividend, a, E.Let(rest, E.Mod(dividend, b), result))


def _by_anything(integers: _Integers, a: ir.Var, b: ir.Var, quotient: bool, truncates: bool) -> ir.Expr:
    zero, one = integers.number(0), integers.number(1)
    by_zero = E.EQ(b, zero)
    unsafe, by_minus_one = by_zero, zero
    if integers.signed:
        unsafe = E.Or(by_zero, E.EQ(b, integers.number(-1)))
        by_minus_one = E.Sub(zero, a) if quotient else zero
    safe = tirx.Var("safe", b.ty)
    whole, rest = E.Div(a, safe), tirx.Var("rest", a.ty)
    divided: ir.Expr = whole if quotient else rest
    if not truncates:
        wrong = E.And(E.NE(rest, zero), E.LT(tirx.bitwise_xor(rest, safe), zero))
        divided = E.Select(wrong, E.Sub(whole, one) if quotient else E.Add(rest, safe), divided)
    result = E.Select(by_zero, zero, E.Select(unsafe, by_minus_one, divided))
    if not (quotient and truncates):
        result = E.Let(rest, E.Mod(a, safe), result)
    return E.Let(safe, E.Select(unsafe, one, b), result)
