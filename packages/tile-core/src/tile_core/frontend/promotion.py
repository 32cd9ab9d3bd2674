"""Which dtype an operation is computed in.

Rules: equal dtypes stay; a float wins over an integer; of two floats or two integers the wider wins; at equal width
unsigned wins over signed, and of two float formats the left one wins; bool gives way to everything. A Python int takes
the other operand's dtype where it fits; a Python float is a float32.
"""

from __future__ import annotations

import operator
from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.frontend import ConstantRangeError, OperandError

BOOL = DType("bool")
INT32 = DType("int32")
INT64 = DType("int64")
UINT64 = DType("uint64")
FLOAT32 = DType("float32")
_SIGNED = (DType("int8"), DType("int16"), INT32, INT64)

Number = bool | int | float
_READABLE_BITS = 128


def _rank(dtype: DType) -> int:
    if dtype.is_bool:
        return 0
    return 2 if dtype.is_float else 1


def promote(a: DType, b: DType) -> DType:
    """The dtype in which `a op b` is computed. Lanes must agree, or one side be scalar.

    Raises:
        OperandError: vectors of different length, or a dtype that has no arithmetic.
    """
    if a is b:
        return a
    lanes = _common_lanes(a, b)
    if lanes > 1:
        return promote(a.element, b.element).with_lanes(lanes)
    if _rank(a) != _rank(b):
        return a if _rank(a) > _rank(b) else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return b if b.is_unsigned else a


def promote_exactly(a: DType, b: DType) -> DType:
    """The dtype in which two integers are compared and divided: one that holds all values of both.

    Raises:
        OperandError: a signed integer and a uint64, which no dtype holds both of.
    """
    common = promote(a, b)
    if not common.element.is_unsigned or not (a.element.is_int or b.element.is_int):
        return common
    for dtype in _SIGNED:
        if dtype.bits > common.element.bits:
            return dtype.with_lanes(common.lanes)
    raise OperandError(f"{a} and {b} have no common integer type", remedy='cast one side: T.cast(x, "int64")')


def _common_lanes(a: DType, b: DType) -> int:
    if a.kind in ("handle", "void") or b.kind in ("handle", "void"):
        raise OperandError(
            f"{a} and {b} have no arithmetic", remedy="use numbers; pointers go to foreign functions as they are"
        )
    if a.lanes != b.lanes and 1 not in (a.lanes, b.lanes):
        raise OperandError(
            f"vectors of {a.lanes} and {b.lanes} lanes do not combine",
            remedy="make both sides vectors of one length, or one of them a scalar",
        )
    return max(a.lanes, b.lanes)


def literal_dtype(value: Number) -> DType:
    """The dtype of a Python number that stands alone.

    It is bool, the first of int32, int64 and uint64 that holds it, or float32.

    Raises:
        ConstantRangeError: an int wider than 64 bits.
    """
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return FLOAT32
    for dtype in (INT32, INT64, UINT64):
        if fits(value, dtype):
            return dtype
    raise ConstantRangeError(f"{shown(value)} does not fit 64 bits", remedy="split it, or use a float")


def literal_beside(value: Number, other: DType) -> DType:
    """The dtype that a Python number takes in an operation with `other`.

    A negative or too large int beside a narrower integer is given a signed dtype that holds both, so that `u8 > -1` is
    true.
    """
    if isinstance(value, bool):
        return BOOL
    element = other.element
    if isinstance(value, float):
        return promote(FLOAT32, element) if element.is_float else FLOAT32
    if element.is_float or (fits(value, element) and not element.is_bool):
        return element
    if element.is_unsigned and value < 0:
        return _signed_above(element, value)
    return literal_dtype(value)


def _signed_above(element: DType, value: int) -> DType:
    for dtype in _SIGNED:
        if dtype.bits > element.bits and fits(value, dtype):
            return dtype
    raise ConstantRangeError(
        f"{shown(value)} and {element} have no common integer type", remedy='cast one side: T.cast(x, "int64")'
    )


def shown(value: Number) -> str:
    """A number as a message shows it: Python refuses to print the longest integers, and nobody reads them."""
    if isinstance(value, int) and value.bit_length() > _READABLE_BITS:
        return f"<{value.bit_length()}-bit integer>"
    return repr(value)


def as_int(value: Any) -> int | None:
    """`value` as a Python int where it is one integer: an int, a numpy integer, a tensor of one; never a bool.

    >>> as_int(3), as_int(True), as_int(1.0), as_int([1])
    (3, None, None, None)
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def fits(value: int, dtype: DType) -> bool:
    """Whether an integer dtype holds `value`."""
    return not dtype.is_float and dtype.min <= value <= dtype.max
