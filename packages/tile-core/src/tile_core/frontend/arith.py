"""Arithmetic on TVM expressions for the operators of `values.Expr`.

Nodes are built raw: TVM's own operators fold floats (`x * 0.0` to 0, `x != x` to false), which is wrong for NaN and
infinities. Only integers are folded here: two constants, and the identities of 0 and 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import DType, FloatFormat
from tile_core.errors.frontend import (
    AmbiguousDivisionError,
    ConstantRangeError,
    DivisionByZeroError,
    OperandError,
)
from tile_core.frontend.promotion import BOOL, INT32, Number, fits, promote, promote_exactly, shown

Node = Callable[[ir.Expr, ir.Expr], ir.Expr]

ARITHMETIC: dict[str, Node] = {"+": tirx.Add, "-": tirx.Sub, "*": tirx.Mul}
DIVISION: dict[str, Node] = {"//": tirx.FloorDiv, "%": tirx.FloorMod}
COMPARISON: dict[str, Node] = {
    "==": tirx.EQ,
    "!=": tirx.NE,
    "<": tirx.LT,
    "<=": tirx.LE,
    ">": tirx.GT,
    ">=": tirx.GE,
}
BITWISE: dict[str, Node] = {"&": tirx.BitwiseAnd, "|": tirx.BitwiseOr, "^": tirx.BitwiseXor}
SHIFT: dict[str, Node] = {"<<": tirx.LShift, ">>": tirx.RShift}

_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# operator -> (constant on the right that leaves the left side, constant on the left that leaves the right side)
_IDENTITY: dict[str, tuple[int | None, int | None]] = {
    "+": (0, 0),
    "-": (0, None),
    "*": (1, 1),
    "//": (1, None),
    "<<": (0, None),
    ">>": (0, None),
}

_dtypes: dict[str, DType] = {}


def dtype_of(expr: ir.Expr) -> DType:
    """The dtype of a scalar or vector expression."""
    spelled = str(getattr(expr.ty, "dtype", "handle"))
    found = _dtypes.get(spelled)
    if found is None:
        found = _dtypes[spelled] = DType(spelled)
    return found


def constant(value: Number, dtype: DType) -> ir.Expr:
    """An immediate, or a broadcast of one for a vector dtype.

    Raises:
        ConstantRangeError: the number does not fit the dtype.
    """
    if dtype.lanes > 1:
        return tirx.Broadcast(constant(value, dtype.element), dtype.lanes)
    if dtype.is_float:
        return _float_constant(_as_float(value, dtype), dtype)
    if isinstance(value, float):
        if not value.is_integer():
            raise ConstantRangeError(
                f"{value!r} is no {dtype}", remedy=f'write T.cast({value!r}, "{dtype}") to truncate'
            )
        value = int(value)
    if dtype.is_bool:
        return tirx.IntImm("bool", int(bool(value)))
    if not fits(value, dtype):
        raise ConstantRangeError(
            f"{shown(value)} does not fit {dtype}",
            remedy=f'use a wider dtype; T.cast(value, "{dtype}") wraps around',
        )
    return tirx.IntImm(dtype.tvm, int(value))


def _as_float(value: Number, dtype: DType) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ConstantRangeError(
            f"{shown(value)} does not fit {dtype}", remedy=f'T.infinity("{dtype}") is larger than every number'
        ) from None


def _float_constant(value: float, dtype: DType) -> ir.Expr:
    form = dtype.float_format
    assert form is not None
    if (math.isnan(value) and not form.has_nan) or (math.isinf(value) and not form.has_infinity):
        raise ConstantRangeError(f"{dtype} has no {value!r}", remedy="use float16, bfloat16 or a wider type")
    rounded = _nearest(value, form)
    if math.isfinite(value) and (abs(rounded) > form.max or (rounded < 0 and not form.signed)):
        raise ConstantRangeError(
            f"{value!r} does not fit {dtype}, whose largest value is {form.max!r}",
            remedy=f'use a wider dtype, or T.infinity("{dtype}")',
        )
    # TVM takes no immediate of a custom type, and none below zero of the fnuz and scale formats.
    if form.encoding in ("scale", "fnuz") or dtype.tvm.startswith("custom"):
        return tirx.Cast(dtype.tvm, tirx.FloatImm("float32", rounded))
    return tirx.FloatImm(dtype.tvm, rounded)


def _nearest(value: float, form: FloatFormat) -> float:
    """The value of the format nearest to `value`, ties to even; beyond the largest, the next step of its scale."""
    if not math.isfinite(value) or value == 0 or form.mantissa >= 52 or form.encoding == "scale":
        return value
    if abs(value) > 2 * form.max:
        return value
    exponent = max(math.frexp(value)[1] - 1, 1 - form.bias)
    quantum = exponent - form.mantissa
    return math.copysign(math.ldexp(round(math.ldexp(value, -quantum)), quantum), value)


def cast(expr: ir.Expr, dtype: DType) -> ir.Expr:
    """`expr` converted to `dtype`: floats truncate toward zero, integers wrap, anything but zero is true."""
    source = dtype_of(expr)
    if source is dtype:
        return expr
    if dtype.lanes != source.lanes:
        if source.lanes != 1:
            raise OperandError(
                f"a vector of {source.lanes} lanes does not convert to {dtype}",
                remedy="convert to a vector of as many lanes",
            )
        return tirx.Broadcast(cast(expr, dtype.element), dtype.lanes)
    if dtype.is_bool:
        return truth(expr)
    if isinstance(expr, tirx.IntImm) and not dtype.is_float:
        return tirx.IntImm(dtype.tvm, wrap_int(int(expr.value), dtype))
    return tirx.Cast(dtype.tvm, expr)


def wrap_int(value: int, dtype: DType) -> int:
    """`value` modulo the dtype's range."""
    if dtype.is_bool:
        return int(bool(value))
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_int and value >> (dtype.bits - 1) else value


def truth(expr: ir.Expr) -> ir.Expr:
    """`expr != 0` as bool; NaN is true, as in C and Python."""
    dtype = dtype_of(expr)
    if dtype.element.is_bool:
        return expr
    return binary("!=", expr, constant(0, dtype))


def negate(expr: ir.Expr) -> ir.Expr:
    """Logical not of a scalar's truth."""
    value = truth(expr)
    return tirx.IntImm("bool", 1 - int(value.value)) if isinstance(value, tirx.IntImm) else tirx.Not(value)


def binary(symbol: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """`a symbol b` after promotion.

    Raises:
        OperandError, AmbiguousDivisionError, DivisionByZeroError: what the operator is not defined for.
    """
    exactly = symbol in COMPARISON or symbol in DIVISION
    dtype = (promote_exactly if exactly else promote)(dtype_of(a), dtype_of(b))
    dtype = _computed_in(symbol, dtype)
    a, b = cast(a, dtype), cast(b, dtype)
    folded = None if dtype.is_float else _fold(symbol, a, b, dtype)
    if folded is not None:
        return folded
    return _node(symbol, a, b)


def _computed_in(symbol: str, dtype: DType) -> DType:
    """Check that `symbol` takes `dtype`; booleans add and divide as int32."""
    element = dtype.element
    if symbol == "/" and not element.is_float:
        raise AmbiguousDivisionError(
            f"`/` on two integers ({dtype})",
            remedy='write `//` for the floor, T.truncdiv for C division, or T.cast(a, "float32") / b',
        )
    if symbol in DIVISION and element.is_float:
        other = "T.floor(a / b)" if symbol == "//" else "T.fmod(a, b)"
        raise OperandError(f"`{symbol}` on floats ({dtype})", remedy=f"write {other}, or cast to an integer")
    if (symbol in BITWISE or symbol in SHIFT) and element.is_float:
        raise OperandError(
            f"`{symbol}` on floats ({dtype})", remedy="cast to an integer, or use T.reinterpret for the bits"
        )
    logical = symbol in BITWISE or symbol in ("==", "!=")
    return INT32.with_lanes(dtype.lanes) if element.is_bool and not logical else dtype


def _node(symbol: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if symbol == "/":
        return _divided(a, b)
    for table in (ARITHMETIC, COMPARISON, DIVISION):
        if symbol in table:
            return table[symbol](a, b)
    if symbol in BITWISE:
        return _logical(symbol, a, b) if dtype_of(a) is BOOL else BITWISE[symbol](a, b)
    return SHIFT[symbol](a, b)


def _divided(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """`a / b` of floats. TVM takes no division by a constant 0; multiplying by the infinity of its sign is the same."""
    if isinstance(b, tirx.FloatImm) and b.value == 0:
        return tirx.Mul(a, tirx.FloatImm(b.ty, math.copysign(math.inf, b.value)))
    return tirx.Div(a, b)


def _logical(symbol: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    nodes: dict[str, Node] = {"&": tirx.And, "|": tirx.Or, "^": tirx.NE}
    return nodes[symbol](a, b)


def _fold(symbol: str, a: ir.Expr, b: ir.Expr, dtype: DType) -> ir.Expr | None:
    x = int(a.value) if isinstance(a, tirx.IntImm) else None
    y = int(b.value) if isinstance(b, tirx.IntImm) else None
    if symbol in DIVISION and y == 0:
        raise DivisionByZeroError(f"`{symbol}` by the constant 0", remedy="divide by something else")
    if symbol in SHIFT and y is not None and not 0 <= y < dtype.bits:
        raise OperandError(f"a shift of {dtype} by {y}", remedy=f"shift by 0 to {dtype.bits - 1}")
    if x is not None and y is not None and symbol in _FOLD:
        result = _FOLD[symbol](x, y)
        return (
            tirx.IntImm("bool", int(result))
            if symbol in COMPARISON
            else tirx.IntImm(dtype.tvm, wrap_int(result, dtype))
        )
    right, left = _IDENTITY.get(symbol, (None, None))
    if right is not None and y == right:
        return a
    return b if left is not None and x == left else None


def unary(symbol: str, a: ir.Expr) -> ir.Expr:
    """`-a` or `~a`; `~` on bool is logical."""
    dtype = dtype_of(a)
    element = dtype.element
    if symbol == "~":
        if element.is_float:
            raise OperandError(f"`~` on a float ({dtype})", remedy="cast to an integer")
        if element.is_bool:
            return negate(a)
        return _not_bits(a, dtype)
    if element.is_bool:
        return unary("-", cast(a, INT32.with_lanes(dtype.lanes)))
    if isinstance(a, tirx.IntImm):
        return tirx.IntImm(dtype.tvm, wrap_int(-int(a.value), dtype))
    if isinstance(a, tirx.FloatImm):
        return tirx.FloatImm(dtype.tvm, -float(a.value))
    # -x of a float is x * -1: 0 - x would lose the sign of zero.
    return tirx.Mul(a, constant(-1, dtype)) if element.is_float else tirx.Sub(constant(0, dtype), a)


def _not_bits(a: ir.Expr, dtype: DType) -> ir.Expr:
    if isinstance(a, tirx.IntImm):
        return tirx.IntImm(dtype.tvm, wrap_int(~int(a.value), dtype))
    return tirx.BitwiseNot(a)


def select(condition: ir.Expr, then: ir.Expr, other: ir.Expr) -> ir.Expr:
    """The value of a ternary: only the chosen side is evaluated."""
    dtype = promote(dtype_of(then), dtype_of(other))
    call: Any = tirx.if_then_else(truth(condition), cast(then, dtype), cast(other, dtype))
    return call
