"""Define the conversion of a float to an integer that cannot hold it: the nearest bound, and 0 for NaN.

LLVM's conversion is undefined there, and in practice depends on the width of the vector it is compiled for. The rule is
that of `tile_core.dtypes.casts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class LegalizeFloatToInt:
    """See the module's docstring."""

    name: ClassVar[str] = "legalize_float_to_int"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (E.Cast, _cast))


def _cast(cast: E.Cast, mutator: Any) -> tirx.Expr:
    value = mutator.mutate(cast.value)
    target, source = cast.ty.dtype, value.ty.dtype
    name = str(target)
    if not str(source).startswith("float") or not name.startswith(("int", "uint")):
        return E.Cast(cast.ty, value, cast.span)
    lanes = int(target.lanes)
    if source.bits < 32:
        value = E.Cast(_typed("float32", lanes), value)
    var = tirx.Var("real", value.ty)
    signed = name.startswith("int")
    return E.Let(var, value, _saturated(var, cast.ty, int(target.bits), signed, lanes))


def _saturated(x: tirx.Var, ty: Any, bits: int, signed: bool, lanes: int) -> Any:
    width = bits - 1 if signed else bits
    scalar = f"{'int' if signed else 'uint'}{bits}"
    real = str(x.ty.dtype).removesuffix(f"x{lanes}") if lanes > 1 else str(x.ty.dtype)

    def number(value: int) -> Any:
        return _spread(tirx.const(value, scalar), lanes)

    def bound(value: float) -> Any:
        return _spread(E.FloatImm(real, value), lanes)

    inside = E.Cast(ty, x)
    if signed:
        below = E.Select(E.EQ(x, x), number(-(1 << width)), number(0))
        inside = E.Select(E.GE(x, bound(-(2.0**width))), inside, below)
    else:
        inside = E.Select(E.GT(x, bound(0.0)), inside, number(0))
    return E.Select(E.GE(x, bound(2.0**width)), number((1 << width) - 1), inside)


def _typed(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _spread(scalar: Any, lanes: int) -> Any:
    return scalar if lanes == 1 else E.Broadcast(scalar, lanes)
