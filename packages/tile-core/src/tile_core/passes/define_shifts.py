"""Give shifts by the number of bits or more a value: everything is shifted out.

C, LLVM and the instruction sets disagree about them, and an undefined value that reaches an address is a crash. Here
`x << n` is 0 and `x >> n` the sign where `n` is negative, or at least the number of bits. A shift whose amount is known
to fit stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import Ranges


@dataclass(frozen=True)
class DefineShifts:
    """See the module's docstring."""

    name: ClassVar[str] = "define_shifts"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        shifts = _Shifts(func)
        body = visit.mutate(
            func.body,
            (S.For, shifts.loop),
            (S.Bind, shifts.bind),
            (E.LShift, shifts.left),
            (E.RShift, shifts.right),
        )
        return func.with_body(body, func.span)


class _Shifts:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._ranges = Ranges(func)

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        bounds = {name: mutator.mutate(getattr(loop, name)) for name in ("min", "extent")}
        self._ranges.enter_loop(loop)
        return rebuild.loop(loop, **bounds, body=mutator.mutate(loop.body))

    def bind(self, bind: S.Bind, mutator: Any) -> S.Stmt:
        bind = mutator.default_mutate(bind)
        self._ranges.bind(bind)
        return bind

    def left(self, shift: E.LShift, mutator: Any) -> ir.Expr:
        shift = mutator.default_mutate(shift)
        return shift if self._fits(shift) else _zero_beyond(shift)

    def right(self, shift: E.RShift, mutator: Any) -> ir.Expr:
        shift = mutator.default_mutate(shift)
        if self._fits(shift):
            return shift
        if str(shift.ty.dtype).startswith("uint"):
            return _zero_beyond(shift)
        last = _like(shift.b, _bits(shift) - 1)
        return E.RShift(shift.a, _with_name(shift.b, lambda amount: E.Select(_inside(amount), amount, last)))

    def _fits(self, shift: Any) -> bool:
        amount, bits = shift.b, _bits(shift)
        if isinstance(amount, E.IntImm):
            return 0 <= int(amount.value) < bits
        low, high = E.GE(amount, _like(amount, 0)), E.LT(amount, _like(amount, bits))
        return int(amount.ty.dtype.lanes) == 1 and self._ranges.proves(low) and self._ranges.proves(high)


def _bits(expr: ir.Expr) -> int:
    return int(expr.ty.dtype.bits)


def _like(expr: ir.Expr, value: int) -> ir.Expr:
    """`value` in the dtype of `expr`, in all of its lanes."""
    element = E.IntImm(str(expr.ty.dtype).partition("x")[0], value)
    lanes = int(expr.ty.dtype.lanes)
    return element if lanes == 1 else E.Broadcast(element, lanes)


def _inside(amount: ir.Expr) -> ir.Expr:
    """Whether an amount is from 0 to the number of bits less one: a negative one is a large unsigned one."""
    name = str(amount.ty.dtype)
    unsigned = amount if name.startswith("uint") else E.Cast(f"u{name}", amount)
    return E.LT(unsigned, _like(unsigned, _bits(amount)))


def _zero_beyond(shift: Any) -> ir.Expr:
    def chosen(amount: ir.Expr) -> ir.Expr:
        return E.Select(_inside(amount), type(shift)(shift.a, amount), _like(shift, 0))

    return _with_name(shift.b, chosen)


def _with_name(amount: ir.Expr, use: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """`use(amount)` with a long amount evaluated once."""
    if isinstance(amount, ir.Var):
        return use(amount)
    var = tirx.Var("amount", amount.ty)
    return E.Let(var, amount, use(var))
