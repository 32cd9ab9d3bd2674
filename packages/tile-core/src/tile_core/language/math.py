"""Elementary functions.

Floats narrower than 32 bits compute in float32 and convert back once, integers given to a float function compute as
float32. `max`, `min` and `clamp` propagate NaN, whichever operand it is: `T.max(a, b)` is `T.max(b, a)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx

from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.values import Expr
from tile_core.ir.regions import constant
from tile_core.language._scalars import WIDE, common, computed_in, float_call, float_test, require
from tile_core.ops.scalar import SCALARS, is_nan

__all__ = [
    "abs",
    "abs2",
    "acos",
    "acosh",
    "add2",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "clamp",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "fabs",
    "floor",
    "fma",
    "fma2",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max2",
    "min",
    "min2",
    "mul2",
    "nearbyint",
    "nextafter",
    "pow",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sub2",
    "tan",
    "tanh",
    "trunc",
]

Node = Callable[..., ir.Expr]


def _scalar(name: str) -> Node:
    return SCALARS[name].call


def exp(x: Any) -> Expr:
    """The exponential function: e to the power x. `T.exp(0.0) == 1.0`."""
    return float_call(tirx.exp, x)


def exp2(x: Any) -> Expr:
    """2 to the power x: `T.exp2(3.0) == 8.0`."""
    return float_call(tirx.exp2, x)


def exp10(x: Any) -> Expr:
    """10 to the power x: `T.exp10(2.0) == 100.0`."""
    return float_call(tirx.exp10, x)


def log(x: Any) -> Expr:
    """Natural logarithm; -inf of 0, NaN of negative values. `T.log(1.0) == 0.0`."""
    return float_call(tirx.log, x)


def log2(x: Any) -> Expr:
    """Logarithm to base 2: `T.log2(8.0) == 3.0`."""
    return float_call(tirx.log2, x)


def log10(x: Any) -> Expr:
    """Logarithm to base 10: `T.log10(1.0) == 0.0`."""
    return float_call(tirx.log10, x)


def log1p(x: Any) -> Expr:
    """Natural logarithm of 1 + x, exact for small x: `T.log1p(0.0) == 0.0`."""
    return float_call(tirx.log1p, x)


def sqrt(x: Any) -> Expr:
    """Square root; NaN of negative values. `T.sqrt(9.0) == 3.0`."""
    return float_call(tirx.sqrt, x)


def rsqrt(x: Any) -> Expr:
    """1 / sqrt(x); inf of 0. `T.rsqrt(4.0) == 0.5`."""
    return float_call(tirx.rsqrt, x)


def sin(x: Any) -> Expr:
    """Sine of x radians: `T.sin(0.0) == 0.0`."""
    return float_call(tirx.sin, x)


def cos(x: Any) -> Expr:
    """Cosine of x radians: `T.cos(0.0) == 1.0`."""
    return float_call(tirx.cos, x)


def tan(x: Any) -> Expr:
    """Tangent of x radians: `T.tan(0.0) == 0.0`."""
    return float_call(tirx.tan, x)


def asin(x: Any) -> Expr:
    """Inverse sine; NaN outside of [-1, 1]. `T.asin(0.0) == 0.0`."""
    return float_call(tirx.asin, x)


def acos(x: Any) -> Expr:
    """Inverse cosine; NaN outside of [-1, 1]. `T.acos(1.0) == 0.0`."""
    return float_call(tirx.acos, x)


def atan(x: Any) -> Expr:
    """Inverse tangent: `T.atan(0.0) == 0.0`."""
    return float_call(tirx.atan, x)


def atan2(x1: Any, x2: Any) -> Expr:
    """The angle of the point (x2, x1), in [-pi, pi]: `T.atan2(0.0, 1.0) == 0.0`."""
    return float_call(tirx.atan2, x1, x2)


def sinh(x: Any) -> Expr:
    """Hyperbolic sine: `T.sinh(0.0) == 0.0`."""
    return float_call(tirx.sinh, x)


def cosh(x: Any) -> Expr:
    """Hyperbolic cosine: `T.cosh(0.0) == 1.0`."""
    return float_call(tirx.cosh, x)


def tanh(x: Any) -> Expr:
    """Hyperbolic tangent: `T.tanh(0.0) == 0.0`."""
    return float_call(tirx.tanh, x)


def asinh(x: Any) -> Expr:
    """Inverse hyperbolic sine: `T.asinh(0.0) == 0.0`."""
    return float_call(tirx.asinh, x)


def acosh(x: Any) -> Expr:
    """Inverse hyperbolic cosine; NaN below 1. `T.acosh(1.0) == 0.0`."""
    return float_call(tirx.acosh, x)


def atanh(x: Any) -> Expr:
    """Inverse hyperbolic tangent; NaN outside of [-1, 1]. `T.atanh(0.0) == 0.0`."""
    return float_call(tirx.atanh, x)


def erf(x: Any) -> Expr:
    """The error function: `T.erf(0.0) == 0.0`."""
    return float_call(tirx.erf, x)


def sigmoid(x: Any) -> Expr:
    """1 / (1 + exp(-x)): `T.sigmoid(0.0) == 0.5`."""
    return float_call(tirx.sigmoid, x)


def floor(x: Any, span: Any = None) -> Expr:
    """The largest integer not above x, as a float: `T.floor(-2.5) == -3.0`."""
    return float_call(tirx.floor, x)


def ceil(x: Any, span: Any = None) -> Expr:
    """The smallest integer not below x, as a float: `T.ceil(-2.5) == -2.0`."""
    return float_call(tirx.ceil, x)


def trunc(x: Any, span: Any = None) -> Expr:
    """The value without its fraction, as a float: `T.trunc(-2.5) == -2.0`."""
    return float_call(tirx.trunc, x)


def round(x: Any, rounding_mode: str = "ties-to-even", span: Any = None) -> Expr:
    """The nearest integer as a float, halves away from zero: 0.5 gives 1, -2.5 gives -3.

    `rounding_mode` stands in TileLang's signature; TileLang rounds halves away from zero with its default all the
    same, and so does this function with either known mode. `T.nearbyint` rounds halves to even.

    `T.round(2.5) == 3.0`.
    """
    if rounding_mode not in ("ties-to-even", "ties-away-from-zero"):
        raise OpArgumentError(
            f"round: rounding_mode={rounding_mode!r}",
            remedy="use T.round for halves away from zero, T.nearbyint for even",
        )
    return float_call(_scalar("tile.round"), x)


def nearbyint(x: Any, span: Any = None) -> Expr:
    """The nearest integer as a float, halves to even: `T.nearbyint(2.5) == 2.0`."""
    return float_call(tirx.nearbyint, x)


def abs(x: Any, span: Any = None) -> Expr:
    """Absolute value; the least integer of a signed dtype stays as it is. `T.abs(-3) == 3`."""
    (operand,) = common(x)
    dtype = arith.dtype_of(operand)
    if dtype.is_float:
        return float_call(tirx.abs, x)
    if not dtype.is_int:
        return Expr(operand)
    negative = arith.binary("<", operand, arith.constant(0, dtype))
    return Expr(tirx.Select(negative, arith.unary("-", operand), operand))


def fabs(x: Any, span: Any = None) -> Expr:
    """Absolute value of a float: `T.fabs(-3.0) == 3.0`."""
    require("fabs", x, lambda dtype: dtype.is_float, "a float")
    return abs(x)


def _extreme(name: str, node: Node, logical: Node, a: Any, b: Any) -> Expr:
    x, y = common(a, b)
    dtype = arith.dtype_of(x)
    if dtype.is_float:
        return float_call(_scalar(name), a, b)
    if dtype.is_bool:
        return Expr(logical(x, y))
    left, right = constant(x), constant(y)
    if left is not None and right is not None:
        return Expr(y if (left < right) is (node is tirx.Max) else x)
    return Expr(node(x, y))


def max(a: Any, b: Any) -> Expr:
    """The larger of two values; NaN if either is. `T.max(2, 3) == 3`."""
    return _extreme("tile.max", tirx.Max, tirx.Or, a, b)


def min(a: Any, b: Any) -> Expr:
    """The smaller of two values; NaN if either is. `T.min(2, 3) == 2`."""
    return _extreme("tile.min", tirx.Min, tirx.And, a, b)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Expr:
    """`min(max(dst, min_val), max_val)`: NaN of any operand propagates, and `max_val` wins over a larger `min_val`.

    `T.clamp(300, 0, 255) == 255`.
    """
    return min(max(dst, min_val), max_val)


def pow(x: Any, y: Any, span: Any = None) -> Expr:
    """X to the power y, of floats.

    Raises:
        OpDTypeError: both are integers.

    `T.pow(2.0, 3.0) == 8.0`.
    """
    operands = common(x, y)
    if not arith.dtype_of(operands[0]).is_float:
        raise OpDTypeError(
            f"T.pow of two integers ({arith.dtype_of(operands[0])})", remedy="multiply, or cast one side to a float"
        )
    return float_call(_power, x, y)


def _power(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """The operator as it is: TVM's function warns of constant exponents, whose powers of negative numbers are right."""
    return tirx.call_intrin(x.ty, "tirx.pow", x, y)


def fmod(x: Any, y: Any) -> Expr:
    """The remainder of x / y with the sign of x, exact, as C's fmod; NaN for y = 0. `T.fmod(-7.0, 3.0) == -1.0`."""
    return float_call(_scalar("tile.fmod"), x, y)


def fma(x: Any, y: Any, z: Any) -> Expr:
    """`x * y + z` of floats, rounded once where the target has the instruction: `T.fma(2.0, 3.0, 1.0) == 7.0`."""
    return float_call(_scalar("tile.fma"), x, y, z)


def copysign(x1: Any, x2: Any) -> Expr:
    """The magnitude of x1 with the sign of x2: `T.copysign(3.0, -0.5) == -3.0`."""
    return float_call(tirx.copysign, x1, x2)


def hypot(x1: Any, x2: Any) -> Expr:
    """sqrt(x1 * x1 + x2 * x2) without overflow in between: `T.hypot(3.0, 4.0) == 5.0`."""
    return float_call(tirx.hypot, x1, x2)


def nextafter(x1: Any, x2: Any) -> Expr:
    """The float32 or float64 next to x1 in the direction of x2: `T.nextafter(1.0, 2.0) > 1.0`."""
    operands = common(x1, x2)
    if arith.dtype_of(operands[0]).element not in WIDE:
        raise OpDTypeError(f"T.nextafter of {arith.dtype_of(operands[0])}", remedy="it needs float32 or float64")
    return float_call(tirx.nextafter, x1, x2)


def ldexp(x1: Any, x2: Any) -> Expr:
    """x1 * 2**x2, for an integer x2: `T.ldexp(3.0, 2) == 12.0`."""
    base, exponent = common(x1)[0], common(x2)[0]
    dtype = arith.dtype_of(base)
    wide = computed_in(dtype)
    power = tirx.exp2(arith.cast(exponent, wide))
    return Expr(arith.cast(tirx.Mul(arith.cast(base, wide), power), dtype if dtype.is_float else wide))


def isnan(x: Any, span: Any = None) -> Expr:
    """Whether x is NaN.

    Example:
        assert T.isnan(T.sqrt(-1.0))
    """
    return float_test(is_nan, x)


def isinf(x: Any, span: Any = None) -> Expr:
    """Whether x is an infinity.

    Example:
        assert T.isinf(-T.infinity("float32"))
    """
    return float_test(lambda v: tirx.EQ(tirx.abs(v), arith.constant(float("inf"), arith.dtype_of(v))), x)


def isfinite(x: Any, span: Any = None) -> Expr:
    """Whether x is neither NaN nor an infinity.

    Example:
        assert T.isfinite(1.0)
    """
    return float_test(lambda v: tirx.LT(tirx.abs(v), arith.constant(float("inf"), arith.dtype_of(v))), x)


_PAIRS = ("float32x2", "float16x2", "bfloat16x2")


def _pair(name: str, function: Callable[..., ir.Expr], *values: Any) -> Expr:
    operands = [common(value)[0] for value in values]
    dtypes = {arith.dtype_of(operand) for operand in operands}
    if len(dtypes) != 1 or dtypes.isdisjoint(_PAIRS):
        raise OpArgumentError(
            f"T.{name} of {', '.join(sorted(dtypes))}", remedy=f"all operands must be one of {', '.join(_PAIRS)}"
        )
    return Expr(function(*operands))


def add2(x: Any, y: Any) -> Expr:
    """Lane by lane sum of a pair: float32x2, float16x2 or bfloat16x2.

    Example:
        assert T.extract_lane(T.add2(T.Broadcast(X[2], 2), T.Broadcast(X[3], 2)), 1) == 5.0
    """
    return _pair("add2", tirx.Add, x, y)


def sub2(x: Any, y: Any) -> Expr:
    """Lane by lane difference of a pair.

    Example:
        assert T.extract_lane(T.sub2(T.Broadcast(X[2], 2), T.Broadcast(X[3], 2)), 1) == -1.0
    """
    return _pair("sub2", tirx.Sub, x, y)


def mul2(x: Any, y: Any) -> Expr:
    """Lane by lane product of a pair.

    Example:
        assert T.extract_lane(T.mul2(T.Broadcast(X[2], 2), T.Broadcast(X[3], 2)), 1) == 6.0
    """
    return _pair("mul2", tirx.Mul, x, y)


def fma2(x: Any, y: Any, z: Any) -> Expr:
    """Lane by lane x * y + z of a pair, rounded once where the target has the instruction.

    Example:
        v = T.Broadcast(X[2], 2)
        assert T.extract_lane(T.fma2(v, v, v), 1) == 6.0
    """
    return _pair("fma2", _scalar("tile.fma"), x, y, z)


def max2(x: Any, y: Any) -> Expr:
    """Lane by lane maximum of a pair; NaN propagates.

    Example:
        assert T.extract_lane(T.max2(T.Broadcast(X[2], 2), T.Broadcast(X[3], 2)), 1) == 3.0
    """
    return _pair("max2", _scalar("tile.max"), x, y)


def min2(x: Any, y: Any) -> Expr:
    """Lane by lane minimum of a pair; NaN propagates.

    Example:
        assert T.extract_lane(T.min2(T.Broadcast(X[2], 2), T.Broadcast(X[3], 2)), 1) == 2.0
    """
    return _pair("min2", _scalar("tile.min"), x, y)


def abs2(x: Any) -> Expr:
    """Lane by lane absolute value of a pair.

    Example:
        assert T.extract_lane(T.abs2(T.Broadcast(-X[2], 2)), 1) == 2.0
    """
    return _pair("abs2", tirx.abs, x)
