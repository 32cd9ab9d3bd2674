"""Calls that compute a scalar from scalars, by the name of the TVM operator.

Functions of float16 and narrower compute in float32 and convert back, as the language says for every backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tile_core.dtypes import DType
from tile_core.interpreter.arithmetic import FLOAT32, Function, Value, converter, where

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _round_half_away(x: Value) -> Value:
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(np.asarray(x).dtype), x)


def _sigmoid(x: Value) -> Value:
    # exp of a negative number never overflows.
    small = np.exp(-np.abs(x))
    return where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(np.asarray(x).dtype)


def _exp10(x: Value) -> Value:
    return np.power(np.asarray(10, np.asarray(x).dtype), x)


def _rsqrt(x: Value) -> Value:
    # In double, so that the one rounding is the last: 1/sqrt in float32 rounds twice.
    wide = np.asarray(x, np.float64)
    return (1 / np.sqrt(wide)).astype(np.asarray(x).dtype)


def _erf_of(x: Value) -> Value:
    return _erf(x).astype(np.asarray(x).dtype)


def _pow(x: Value, y: Value) -> Value:
    # Where one exponent serves all elements and is 0.5, numpy takes the square root: NaN for -inf, -0 for -0.
    root = (np.asarray(y) == 0.5) & (np.isneginf(x) | (np.asarray(x) == 0))
    return where(root, np.abs(x), np.power(x, y)).astype(np.asarray(x).dtype)


def _ldexp(x: Value, exponent: Value) -> Value:
    return np.ldexp(x, np.asarray(exponent).astype(np.int64))


FLOAT_FUNCTIONS: Mapping[str, Function] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _erf_of,
    "exp": np.exp,
    "exp10": _exp10,
    "exp2": np.exp2,
    "fabs": np.abs,
    "floor": np.floor,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ldexp": _ldexp,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "pow": _pow,
    "round": _round_half_away,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
PREDICATES: Mapping[str, Function] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
PREFIXES = ("tirx.", "prim.")


def _fused(a: Value, b: Value, c: Value) -> Value:
    """`a * b + c` rounded once: exact in longdouble for float32 and narrower operands."""
    wide = np.longdouble
    return (np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)).astype(np.asarray(a).dtype)


def _unsigned(value: Value) -> Value:
    array = np.asarray(value)
    return array.view(np.dtype(f"uint{array.dtype.itemsize * 8}"))


def _popcount(value: Value) -> Value:
    return np.bitwise_count(_unsigned(value))


def _leading_zeros(value: Value) -> Value:
    array = _unsigned(value)
    bits = array.dtype.itemsize * 8
    # Smear the highest set bit downward; the ones are then all bits below and including it.
    smeared = array.copy()
    shift = 1
    while shift < bits:
        smeared = smeared | (smeared >> shift)
        shift *= 2
    return bits - np.bitwise_count(smeared).astype(np.int32)


INTEGER_FUNCTIONS: Mapping[str, Function] = {"popcount": _popcount, "clz": _leading_zeros, "fabs": np.abs}


def is_known(name: str) -> bool:
    """Whether some operands have a meaning for the operator `name` here."""
    short = name.removeprefix("tirx.").removeprefix("prim.")
    return short in FLOAT_FUNCTIONS or short in INTEGER_FUNCTIONS or short in PREDICATES or short == "fma"


def function(name: str, operand: DType, result: DType) -> Function | None:
    """The meaning of the operator `name` on operands of one dtype, `None` where there is none here."""
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
    if prefix is None:
        return None
    short = name.removeprefix(prefix)
    if short in PREDICATES:
        return _through_float32(PREDICATES[short], operand, None)
    if not operand.is_float:
        return _of_integers(INTEGER_FUNCTIONS.get(short), result)
    if short == "fma":
        return _through_float32(_fused, operand, operand)
    found = FLOAT_FUNCTIONS.get(short)
    return None if found is None else _through_float32(found, operand, operand)


def _of_integers(compute: Function | None, result: DType) -> Function | None:
    return None if compute is None else lambda *values: np.asarray(compute(*values)).astype(result.numpy)[()]


def _through_float32(compute: Function, operand: DType, result: DType | None) -> Function:
    if operand.family == "float" and operand.bits >= 32:
        return compute
    widen = converter(operand, FLOAT32)
    narrow: Callable[[Any], Any] = (lambda value: value) if result is None else converter(FLOAT32, result)
    return lambda first, *rest: narrow(compute(widen(first), *(_widened(value, widen) for value in rest)))


def _widened(value: Value, widen: Function) -> Value:
    """Further operands; `ldexp` takes an integer, which stays."""
    return value if np.asarray(value).dtype.kind in "iu" else widen(value)
