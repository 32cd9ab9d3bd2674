"""Operands and result dtypes of scalar functions.

Floats narrower than 32 bits compute in float32 and are converted back once; integers given to a float function compute
as float32. Python numbers take the dtype of the device value beside them, as with operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir

from tile_core.dtypes import DType
from tile_core.errors.ops import OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.promotion import FLOAT32, literal_beside, literal_dtype, promote
from tile_core.frontend.values import Expr, Value, as_number, unwrap

WIDE = (FLOAT32, DType("float64"))


def common(*values: Any) -> list[ir.Expr]:
    """Expressions of one dtype for the arguments of a function."""
    device = [unwrap(value) if isinstance(value, Value | ir.Expr) else None for value in values]
    dtypes = [arith.dtype_of(expr) for expr in device if expr is not None]
    beside = _promoted(dtypes)
    constants = [None if expr is not None else as_number(value) for value, expr in zip(values, device, strict=True)]
    dtypes += [
        literal_dtype(number) if beside is None else literal_beside(number, beside)
        for number in constants
        if number is not None
    ]
    dtype = _promoted(dtypes)
    assert dtype is not None
    return [
        arith.cast(expr, dtype) if expr is not None else arith.constant(number, dtype)  # type: ignore[arg-type]
        for expr, number in zip(device, constants, strict=True)
    ]


def _promoted(dtypes: list[DType]) -> DType | None:
    if not dtypes:
        return None
    result, *rest = dtypes
    for dtype in rest:
        result = promote(result, dtype)
    return result


def computed_in(dtype: DType) -> DType:
    """The dtype in which a float function of `dtype` is computed."""
    if dtype.element in WIDE:
        return dtype
    return FLOAT32.with_lanes(dtype.lanes)


def result_of(dtype: DType) -> DType:
    """The dtype of a float function's result: `dtype` for floats, float32 for integers."""
    return dtype if dtype.is_float else FLOAT32.with_lanes(dtype.lanes)


def float_call(function: Callable[..., ir.Expr], *values: Any) -> Expr:
    """`function` of floats: computed wide, converted back once."""
    operands = common(*values)
    dtype = arith.dtype_of(operands[0])
    wide = computed_in(dtype)
    return Expr(arith.cast(function(*(arith.cast(operand, wide) for operand in operands)), result_of(dtype)))


def float_test(test: Callable[[ir.Expr], ir.Expr], value: Any) -> Expr:
    """A predicate of a float; integers are never NaN or infinite, so they are tested as float32."""
    (operand,) = common(value)
    return Expr(test(arith.cast(operand, computed_in(arith.dtype_of(operand)))))


def require(name: str, value: Any, accepted: Callable[[DType], bool], wanted: str) -> ir.Expr:
    """An expression of an accepted dtype. Raises `OpDTypeError`."""
    (operand,) = common(value)
    dtype = arith.dtype_of(operand)
    if not accepted(dtype):
        raise OpDTypeError(f"T.{name} of {dtype}", remedy=f"it needs {wanted}; convert with T.cast")
    return operand
