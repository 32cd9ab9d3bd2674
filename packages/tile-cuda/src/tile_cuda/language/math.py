"""Functions of scalars that CUDA hardware has: fast ones with fewer digits, and arithmetic with a rounding mode.

The fast functions give what the exact ones give in the interpreter and in emulated execution.
"""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.values import Element, Expr, unwrap, wrap
from tile_core.language._operands import buffer_of
from tile_core.language._scalars import common, float_call, require
from tile_core.ops.directed import MODES
from tile_core.ops.scalar import SCALARS

__all__ = [
    "__cos",
    "__exp",
    "__exp10",
    "__ffs",
    "__fns",
    "__ldg",
    "__log",
    "__log2",
    "__log10",
    "__sin",
    "__tan",
    "fast_rcp",
    "fmul",
    "ieee_add",
    "ieee_fdiv",
    "ieee_fmaf",
    "ieee_frcp",
    "ieee_frsqrt",
    "ieee_fsqrt",
    "ieee_mul",
    "ieee_sub",
]


_WIDE = ("float32", "float64")


def _fast(name: str, x: Any) -> Expr:
    require(name, x, lambda dtype: dtype.is_float, "a float")
    return float_call(SCALARS[f"tile.fast_{name.removeprefix('__').removeprefix('fast_')}"].call, x)


def __exp(x: Any) -> Expr:
    """The exponential function, with fewer digits than `T.exp`. Raises OpDTypeError for anything but floats."""
    return _fast("__exp", x)


def __exp10(x: Any) -> Expr:
    """10 to the power x, with fewer digits. Raises as `T.__exp`."""
    return _fast("__exp10", x)


def __log(x: Any) -> Expr:
    """Natural logarithm, with fewer digits. Raises as `T.__exp`."""
    return _fast("__log", x)


def __log2(x: Any) -> Expr:
    """Logarithm to base 2, with fewer digits. Raises as `T.__exp`."""
    return _fast("__log2", x)


def __log10(x: Any) -> Expr:
    """Logarithm to base 10, with fewer digits. Raises as `T.__exp`."""
    return _fast("__log10", x)


def __sin(x: Any) -> Expr:
    """Sine, with fewer digits, best near 0. Raises as `T.__exp`."""
    return _fast("__sin", x)


def __cos(x: Any) -> Expr:
    """Cosine, with fewer digits, best near 0. Raises as `T.__exp`."""
    return _fast("__cos", x)


def __tan(x: Any) -> Expr:
    """Tangent, with fewer digits, best near 0. Raises as `T.__exp`."""
    return _fast("__tan", x)


def fast_rcp(x: Any) -> Expr:
    """1 / x to about one unit in the last place; subnormal operands and results are zeros.

    Computed in float32.

    Raises:
        OpDTypeError: no float, or float64, which has no such instruction.
    """
    operand = require("fast_rcp", x, lambda dtype: dtype.is_float and dtype.bits <= 32, "a float of at most 32 bits")
    return _fast("fast_rcp", Expr(operand))


def fmul(x: Any, y: Any) -> Expr:
    """`x * y`, rounded to nearest before anything else is done with it: never part of a fused multiply-add.

    Raises:
        OpDTypeError: operands that are no floats, or of different dtypes.
    """
    operands = [require("fmul", value, lambda dtype: dtype.is_float, "a float") for value in common(x, y)]
    if len({arith.dtype_of(unwrap(value)) for value in (x, y) if isinstance(value, Expr)}) > 1:
        raise OpDTypeError("T.fmul of different dtypes", remedy="convert one with T.cast")
    return float_call(SCALARS["tile.mul_rn"].call, *map(Expr, operands))


def _rounded(name: str, operation: str, mode: str, *values: Any, dtypes: tuple[str, ...] = _WIDE) -> Expr:
    if mode not in MODES:
        raise OpArgumentError(f"T.{name}: rounding_mode={mode!r}", remedy=f"use one of {', '.join(MODES)}")
    operands = common(*values)
    dtype = arith.dtype_of(operands[0])
    if dtype.name not in dtypes:
        raise OpDTypeError(f"T.{name} of {dtype}", remedy=f"it needs {' or '.join(dtypes)}; convert with T.cast")
    return Expr(SCALARS[f"tile.{operation}_{mode}"].call(*operands))


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """`x + y` of float32 or float64, rounded by `rounding_mode` and never fused.

    Args:
        rounding_mode: "rn" to nearest even, "rz" towards zero, "ru" up, "rd" down.

    Raises:
        OpArgumentError: another mode.
        OpDTypeError: another dtype.

    Example:
        low, high = T.ieee_add(a, b, "rd"), T.ieee_add(a, b, "ru")
    """
    return _rounded("ieee_add", "add", rounding_mode, x, y)


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """`x - y`; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_sub", "sub", rounding_mode, x, y)


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """`x * y`; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_mul", "mul", rounding_mode, x, y)


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """`x / y`; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_fdiv", "div", rounding_mode, x, y)


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Expr:
    """`x * y + z`, rounded once; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_fmaf", "fma", rounding_mode, x, y, z)


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Expr:
    """1 / x; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_frcp", "rcp", rounding_mode, x)


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Expr:
    """The square root; modes and errors as `T.ieee_add`."""
    return _rounded("ieee_fsqrt", "sqrt", rounding_mode, x)


def ieee_frsqrt(x: Any) -> Expr:
    """1 / sqrt(x) of float32, rounded to nearest even once. Raises OpDTypeError for another dtype."""
    return _rounded("ieee_frsqrt", "rsqrt", "rn", x, dtypes=("float32",))


def __ffs(value: Any) -> Expr:
    """The position of the lowest 1 bit of an integer of 32 or 64 bits, counted from 1, as int32; 0 for 0.

    Raises:
        OpDTypeError: another dtype.
    """
    operand = require("__ffs", value, lambda dtype: dtype.is_integer and dtype.bits in (32, 64), "32 or 64 bits")
    signed = DType(f"int{arith.dtype_of(operand).bits}")
    return Expr(SCALARS["tile.find_first"].call(arith.cast(operand, signed)))


def __fns(mask: Any, base: Any, offset: Any) -> Expr:
    """The position of the `offset`-th 1 bit of a 32-bit `mask`, from bit `base` upward; downward where it is negative.

    0 asks for bit `base` itself. The result is uint32, 0xFFFFFFFF where there is no such bit. `base` is 0 to 31.
    """
    wanted = ((mask, DType("uint32")), (base, DType("uint32")), (offset, DType("int32")))
    operands = (arith.cast(unwrap(value, dtype), dtype) for value, dtype in wanted)
    return Expr(SCALARS["tile.find_nth"].call(*operands))


def __ldg(load_or_buf: Any, index: Any = None) -> Expr:
    """An element of a global tensor, read through the cache for data that the kernel never writes.

    Args:
        load_or_buf: an element, or a buffer of one axis with `index`.

    Raises:
        OpArgumentError: no element of a global tensor.

    Example:
        scale = T.__ldg(S[i])
    """
    buffer = buffer_of(load_or_buf, "__ldg")
    if buffer.scope != "global":
        raise OpArgumentError(f"__ldg: {buffer.name} is {buffer.scope} memory", remedy="it reads global tensors")
    element = load_or_buf if index is None else buffer[index]
    if not isinstance(element, Element):
        raise OpArgumentError(f"__ldg: {load_or_buf!r} is no element", remedy="write A[i], or pass the index")
    return wrap(SCALARS["tile.read_only"].call(unwrap(element)))
