"""Conversions: `T.cast`, `T.Cast` and `T.reinterpret`. The rules are the table of `tile_core.dtypes.casts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.positions import located
from tile_core.frontend.values import Expr, unwrap, unwrap_cast
from tile_core.ops.scalar import cast_call

__all__ = ["Cast", "cast", "reinterpret"]

_MODES = ("", "rn", "rz", "rp", "rm", "rs")


@located
def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None, span: Any = None) -> Expr:
    """`value` as `dtype`.

    Float to integer truncates toward zero and saturates (NaN gives 0), integers wrap, floats round to nearest even,
    floats of 8 bits and fewer saturate, anything but zero is true.

    Args: round: for a float target: "" or "rn" to nearest even, "rz" toward zero, "rp" up, "rm" down, "rs"
    stochastic. sat: for a float target of 8 bits and fewer: whether overflow gives the largest finite value, else
    infinity or NaN. rbits: uint32 random bits, which "rs" needs.

    Raises:
        OpArgumentError: an unknown rounding, or "rs" without `rbits`.

    Example:
        X[0] = T.cast(I[3], "float32")
        assert T.cast(2.75, "int32") == 2  # toward zero
    """
    if round not in _MODES:
        raise OpArgumentError(f"cast: round={round!r}", remedy="use rn, rz, rp, rm or rs")
    if round == "rs" and rbits is None:
        raise OpArgumentError("cast: stochastic rounding needs random bits", remedy="pass rbits=")
    target = as_dtype(dtype)
    plain = unwrap_cast(value, target)
    form = target.float_format
    saturates = sat or form is None or target.bits > 8 or not form.has_nan
    if form is None or (round in ("", "rn") and saturates):
        return Expr(plain)
    random = None if rbits is None else unwrap(rbits, DType("uint32"))
    return Expr(cast_call(unwrap(value), target, round or "rn", bool(saturates), random))


@located
def Cast(dtype: Any, value: Any, annotations: Mapping[str, Any] | None = None, span: Any = None) -> Expr:
    """`T.cast` with TIR's order of arguments: `T.Cast("int32", 2.75) == 2`."""
    return cast(value, dtype)


@located
def reinterpret(value: Any, dtype: Any, span: Any = None) -> Expr:
    """The bits of `value` read as `dtype`, which must have as many.

    Raises:
        OpDTypeError: the numbers of bits differ.

    `T.reinterpret(T.float32(1.0), "int32") == 0x3F800000`.
    """
    operand, target = unwrap(value), as_dtype(dtype)
    source = arith.dtype_of(operand)
    if source is target:
        return Expr(operand)
    if source.bits * source.lanes != target.bits * target.lanes:
        raise OpDTypeError(
            f"T.reinterpret of {source} as {target}",
            remedy=f"{source} has {source.bits * source.lanes} bits, {target} has {target.bits * target.lanes}",
        )
    node: ir.Expr = tirx.reinterpret(target.tvm, operand)
    return Expr(node)
