"""Small expressions that the host entry is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx

from tile_core.errors.runtime import UnsupportedParameterError

BOOL_CODE = 6
INT_CODE, UINT_CODE = 0, 1


def is_float(dtype: Any) -> bool:
    """Whether a dtype is neither an integer nor a bool."""
    return dtype.type_code not in (INT_CODE, UINT_CODE, BOOL_CODE)


def fits(value: Any, dtype: Any) -> list[Any]:
    """Whether an int64 lies in the range of an integer dtype. A uint64 above 2^63 - 1 cannot arrive as an int64."""
    if dtype.type_code == BOOL_CODE:
        return []
    signed = dtype.type_code == INT_CODE
    low = -(1 << (dtype.bits - 1)) if signed else 0
    high = (1 << (dtype.bits - signed)) - 1
    checks = [] if low == -(1 << 63) else [tirx.GE(value, i64(low))]
    return checks if high >= (1 << 63) - 1 else [*checks, tirx.LE(value, i64(high))]


_FLOATS = ("float64", "float32", "float16")


def narrow_float(dtype: str, value: Any) -> Any:
    """A float64 as a parameter's dtype, rounded through float32 as torch does."""
    if dtype not in _FLOATS:
        raise UnsupportedParameterError(
            f"a scalar parameter of dtype {dtype} cannot be passed", remedy="pass a float32 and cast it in the kernel"
        )
    if dtype == "float64":
        return value
    single = tirx.Cast("float32", value)
    return single if dtype == "float32" else tirx.Cast(dtype, single)


def bfloat16_bits(value: Any) -> Any:
    """Round to nearest even on the bits: the entry is made after TVM's pass that spells bfloat16 conversions out."""
    bits = tirx.reinterpret("uint32", value)
    high = tirx.shift_right(bits, u32(16))
    rounded = tirx.shift_right(bits + tirx.bitwise_and(high, u32(1)) + u32(0x7FFF), u32(16))
    quiet = tirx.bitwise_or(high, u32(0x40))
    nan = tirx.GT(tirx.bitwise_and(bits, u32(0x7FFFFFFF)), u32(0x7F800000))
    return tirx.Cast("uint16", tirx.Select(nan, quiet, rounded))


def cast(ty: Any, value: Any) -> Any:
    """An int64 as a variable's type."""
    dtype = str(ty.dtype)
    return value if dtype == "int64" else tirx.Cast(dtype, value)


def cast64(value: Any) -> Any:
    """An integer as an int64."""
    if isinstance(value, tirx.IntImm):
        return i64(int(value))
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def handle_type() -> Any:
    """The type of an address of anything."""
    return tirx.Var("address", "handle").ty


def choose(condition: Any, address: Any, other: Any) -> Any:
    """`if_then_else` on addresses, for which TVM has no builder."""
    return ir.Call(ir.Op.get("prim.if_then_else"), [condition, address, other], ret_ty=handle_type())


def int64_pointer() -> Any:
    """The type of extents and strides in a tensor."""
    return ir.PointerType(ir.PrimType("int64"), "global")


def i32(value: int) -> Any:
    """An int32 constant."""
    return tirx.IntImm("int32", value)


def u32(value: int) -> Any:
    """A uint32 constant."""
    return tirx.IntImm("uint32", value)


def i64(value: int) -> Any:
    """An int64 constant."""
    return tirx.IntImm("int64", value)


def true() -> Any:
    """A condition that holds."""
    return tirx.IntImm("bool", 1)


def false() -> Any:
    """A condition that does not hold."""
    return tirx.IntImm("bool", 0)


def every(conditions: Sequence[Any]) -> Any:
    """The conjunction of conditions; every one is evaluated."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = tirx.And(whole, condition)
    return whole


def some(conditions: Sequence[Any]) -> Any:
    """The disjunction of conditions; every one is evaluated."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = tirx.Or(whole, condition)
    return whole
