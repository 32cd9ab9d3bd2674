"""The numpy meaning of arithmetic nodes, one function a node and dtype.

Every operation rounds to its dtype: float16 and wider as IEEE says, bfloat16 and narrower by computing in float32 and
converting (saturating, as `dtypes/casts.py`). Integers wrap. `//` and `%` floor, `Div` and `Mod` on integers truncate.
`Max` and `Min` on floats are the comparison of C, `a > b ? a : b`; the functions that treat NaN symmetrically are
calls (`ops/scalar.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType, casts

Value = Any
"""A numpy scalar, or an array that broadcasts to the iteration space."""
Function = Callable[..., Value]

FLOAT32, INT32 = DType("float32"), DType("int32")


def _divide_toward_zero(a: Value, b: Value) -> Value:
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(quotient.dtype)


def where(condition: Value, then: Value, other: Value) -> Value:
    """`np.where` that gives scalars for scalars."""
    return np.asarray(np.where(condition, then, other))[()]


def _maximum(a: Value, b: Value) -> Value:
    return where(a > b, a, b)


def _minimum(a: Value, b: Value) -> Value:
    return where(a < b, a, b)


ARITHMETIC: Mapping[type, Function] = {
    E.Add: np.add,
    E.Sub: np.subtract,
    E.Mul: np.multiply,
    E.Div: np.divide,
    E.Mod: np.fmod,
    E.FloorDiv: np.floor_divide,
    E.FloorMod: np.remainder,
    E.Max: _maximum,
    E.Min: _minimum,
    E.BitwiseAnd: np.bitwise_and,
    E.BitwiseOr: np.bitwise_or,
    E.BitwiseXor: np.bitwise_xor,
    E.LShift: np.left_shift,
    E.RShift: np.right_shift,
}
COMPARISON: Mapping[type, Function] = {
    E.EQ: np.equal,
    E.NE: np.not_equal,
    E.LT: np.less,
    E.LE: np.less_equal,
    E.GT: np.greater,
    E.GE: np.greater_equal,
}
DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)


def computes_in_float32(dtype: DType) -> bool:
    """Whether values of this dtype are computed in float32 and converted back after every operation."""
    return dtype.is_float and dtype.family not in ("float", "bfloat16")


def rounded(function: Function, dtype: DType) -> Function:
    """`function` of values of `dtype`, its result rounded to `dtype`."""
    if not computes_in_float32(dtype):
        return function
    widen, narrow = converter(dtype, FLOAT32), converter(FLOAT32, dtype)
    return lambda *operands: narrow(function(*(widen(operand) for operand in operands)))


def binary(node: type, dtype: DType) -> Function:
    """The meaning of a binary arithmetic or comparison node on operands of `dtype`.

    Raises:
        KeyError: numpy has no meaning for the node.
    """
    if node in COMPARISON:
        compare = COMPARISON[node]
        if not computes_in_float32(dtype):
            return compare
        widen = converter(dtype, FLOAT32)
        return lambda a, b: compare(widen(a), widen(b))
    if node is E.Div and not dtype.is_float:
        return _divide_toward_zero
    if node is E.LShift and dtype.bits < 8:
        # ml_dtypes keeps the bits that leave a type narrower than a byte.
        wide, fitted = converter(dtype, INT32), converter(INT32, dtype)
        return lambda a, b: fitted(np.left_shift(wide(a), wide(b)))
    return rounded(ARITHMETIC[node], dtype)


def converter(source: DType, target: DType) -> Function:
    """The function that converts values of `source` to `target`."""
    if source.numpy == target.numpy and source.family == target.family:
        return lambda value: value
    if _plain(source, target):
        numpy = target.numpy
        return lambda value: np.asarray(value).astype(numpy)[()]
    return lambda value: casts.cast(np.asarray(value), source, target)[()]


def _plain(source: DType, target: DType) -> bool:
    """Whether numpy's own conversion is the language's."""
    native = ("float", "signed integer", "unsigned integer")
    if source.bits < 8 or target.bits < 8 or target.family not in native:
        return False
    return source.family in (*native, "boolean", "bfloat16") and not (source.is_float and target.is_integer)


def reinterpret(source: DType, target: DType) -> Function:
    """The same bits read as `target`, of equal width over all lanes."""

    def read(value: Value) -> Value:
        lanes = np.ascontiguousarray(value if source.is_vector else np.asarray(value)[..., None])
        found = lanes.view(target.element.numpy)
        return found if target.is_vector else found[..., 0]

    return read
