"""float32 functions without calls, branches or tables.

The coefficients are minimax polynomials (Remez exchange in 50 digits, weighted for relative error, rounded to float32);
the comment at each gives the interval and the error before rounding. `tests/math` measures every function against
mpmath over all magnitudes; `ERRORS` is the largest error in units in the last place that it allows where the CPU
multiplies and adds in one instruction, and 2 where it does not.

Zeros, infinities and NaN are exact everywhere. Subnormal arguments and results are exact to the same bounds, except on
machines that flush them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tile_cpu.math.values import Formula, Value

# 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
_ROUND = 12582912.0
_ROUND_BITS = 0x4B400000
_LOG2E = 1.4426950408889634
# ln 2 and log10 2 in two parts, the first short enough that its multiples by an exponent are exact.
_LN2 = (0.693145751953125, 1.428606765330187e-06)
_LOG10_2 = (0.301025390625, 4.6050389811952137e-06)

# 2^f = 1 + f q(f), |f| <= 1/2: 2^-28.9.
_EXP2 = (6.931471825e-01, 2.402264774e-01, 5.550331995e-02, 9.618439712e-03, 1.339913229e-03, 1.535315096e-04)
# e^r = 1 + r + r^2 q(r), |r| <= ln(2)/2: 2^-28.3.
_EXP = (4.999999404e-01, 1.666651964e-01, 4.166840017e-02, 8.368850686e-03, 1.381431590e-03)
# ln(1 + f) = f - f^2/2 + f^3 p(f), sqrt(1/2) - 1 <= f <= sqrt(2) - 1: 2^-30.3.
_LOG = (
    3.333331347e-01,
    -2.500000894e-01,
    2.000212371e-01,
    -1.666800529e-01,
    1.421945542e-01,
    -1.240535080e-01,
    1.188869476e-01,
    -1.167745292e-01,
    6.747657806e-02,
)
# tanh x = x + x z p(z), z = x^2, |x| <= 5/8: 2^-27.9.
_TANH = (-3.333328366e-01, 1.333149076e-01, -5.374349654e-02, 2.065058611e-02, -5.717043299e-03)
# erf x = x + x p(x^2), |x| <= 1: 2^-29.7.
_ERF = (
    1.283791661e-01,
    -3.761262596e-01,
    1.128360033e-01,
    -2.685444430e-02,
    5.189535674e-03,
    -8.020843379e-04,
    7.889126573e-05,
)
# erf x = 1 - exp(-x p(x)), 1 <= x <= 4, beyond which erf is 1: 2^-31.2.
_ERFC = (
    1.128688574e00,
    6.349916458e-01,
    1.064958200e-01,
    -2.398108318e-02,
    3.744282061e-03,
    -3.474593686e-04,
    1.365953267e-05,
)


def _clamp(f: Formula, x: Value, low: float, high: float) -> Value:
    """`x` between the limits; NaN stays NaN."""
    raised = f.where(x < low, low, x)
    return f.let("clamped", f.where(raised > high, high, raised))


def _round(f: Formula, x: Value) -> tuple[Value, Value]:
    """The nearest integer of `x`, |x| < 2^22, as float32 and as int32."""
    shifted = f.let("shifted", x + _ROUND)
    return f.let("whole", shifted - _ROUND), f.let("exponent", shifted.bits() - _ROUND_BITS)


def _scale(f: Formula, x: Value, whole: Value, exponent: Value) -> Value:
    """`x * 2^exponent` for |exponent| < 254; `whole` is the exponent as a float32.

    Without an instruction for it there are two steps, so that subnormal and infinite results come out right: the first
    product is exact, the second one rounds.
    """
    if f.scales:
        return x.scaled(whole)
    half = f.let("half", exponent >> 1)
    rest = exponent - half
    return x * ((half + 127) << 23).as_float() * ((rest + 127) << 23).as_float()


def exp2(f: Formula, x: Value) -> Value:
    """2^x."""
    if f.scales:
        part = f.let("part", x.rest())
        return part.polynomial(1.0, *_EXP2).scaled(x - part)
    x = _clamp(f, x, -151.0, 129.0)
    whole, exponent = _round(f, x)
    part = f.let("part", x - whole)
    return _scale(f, part.polynomial(1.0, *_EXP2), whole, exponent)


def exp(f: Formula, x: Value) -> Value:
    """e^x."""
    x = _clamp(f, x, -104.0, 89.0)
    whole, exponent = _round(f, x * _LOG2E)
    part = f.let("part", whole.fma(-_LN2[1], whole.fma(-_LN2[0], x)))
    return _scale(f, part.polynomial(1.0, 1.0, *_EXP), whole, exponent)


def exp10(f: Formula, x: Value) -> Value:
    """10^x."""
    x = _clamp(f, x, -46.0, 39.0)
    whole, exponent = _round(f, x * math.log2(10))
    rest = f.let("rest", whole.fma(-_LOG10_2[1], whole.fma(-_LOG10_2[0], x)))
    part = f.let("part", rest * math.log(10))
    return _scale(f, part.polynomial(1.0, 1.0, *_EXP), whole, exponent)


def _split(f: Formula, x: Value) -> tuple[Value, Value]:
    """`x = (1 + part) * 2^exponent` for positive finite x, with 1 + part near 1; the exponent is a float32."""
    subnormal = x < 1.17549435e-38
    bits = f.let("bits", f.where(subnormal, x * 33554432.0, x).bits())
    exponent = f.let("exponent", (bits - 0x3F3504F3) >> 23)
    part = (bits - (exponent << 23)).as_float() - 1.0
    return f.let("part", part), f.let("power", exponent.to_float() - f.where(subnormal, x.like(25.0), 0.0))


def _log_limits(f: Formula, x: Value, result: Value) -> Value:
    """The values of a logarithm outside of the positive finite numbers."""
    infinite = f.where(x.equals(math.inf), x, result)
    positive = f.where(x > 0.0, infinite, math.nan)
    return f.where(x.equals(0.0), -math.inf, positive)


def _log_tail(f: Formula, part: Value) -> Value:
    """ln(1 + part) - part."""
    square = f.let("square", part * part)
    return f.let("tail", square.fma(part * part.polynomial(*_LOG), square * -0.5))


def log(f: Formula, x: Value) -> Value:
    """The natural logarithm."""
    part, power = _split(f, x)
    tail = power.fma(_LN2[1], _log_tail(f, part))
    return _log_limits(f, x, power.fma(_LN2[0], part + tail))


def _log_base(f: Formula, x: Value, scale: tuple[float, float], power: tuple[float, float]) -> Value:
    """A logarithm of another base: `scale` = 1/ln(base) and `power` = log_base(2), each in two parts."""
    part, exponent = _split(f, x)
    tail = _log_tail(f, part)
    low = exponent.fma(power[1], part.fma(scale[1], tail * scale[0]))
    return _log_limits(f, x, exponent.fma(power[0], part.fma(scale[0], low)))


def log2(f: Formula, x: Value) -> Value:
    """The logarithm to base 2."""
    return _log_base(f, x, (1.44269502162933349609375, 1.9259629911266175e-08), (1.0, 0.0))


def log10(f: Formula, x: Value) -> Value:
    """The logarithm to base 10."""
    return _log_base(f, x, (0.4342944920063018798828125, -1.010305006e-08), _LOG10_2)


def log1p(f: Formula, x: Value) -> Value:
    """ln(1 + x), accurate near 0: the rounding error of 1 + x enters as a correction."""
    total = f.let("total", x + 1.0)
    correction = (x - (total - 1.0)) / total
    finite = f.where(total.equals(math.inf), total, f.let("logarithm", log(f, total)) + correction)
    return f.where(x.equals(0.0), x, f.where(total > 0.0, finite, log(f, total)))


def tanh(f: Formula, x: Value) -> Value:
    """The hyperbolic tangent."""
    size = f.let("size", x.magnitude())
    square = f.let("square", x * x)
    near = (size * square).fma(square.polynomial(*_TANH), size)
    far = 1.0 - 2.0 / (exp(f, size + size) + 1.0)
    return f.where(size < 0.625, near, far).with_sign_of(x)


def sigmoid(f: Formula, x: Value) -> Value:
    """1 / (1 + e^-x), from e^-|x| so that small results keep their digits."""
    small = f.let("small", exp(f, -x.magnitude()))
    total = f.let("total", small + 1.0)
    quotient = f.let("quotient", f.where(x < 0.0, small, 1.0) / total)
    # The rounding error of 1 + small, over the total: a line is close enough to 1 / total on [1, 2].
    lost = (small - (total - 1.0)) * total.fma(-0.5, 1.457)
    return quotient - quotient * lost


def erf(f: Formula, x: Value) -> Value:
    """The error function."""
    size = f.let("size", x.magnitude())
    square = f.let("square", x * x)
    near = size.fma(square.polynomial(*_ERF), size)
    bounded = f.let("bounded", f.where(size > 4.0, 4.0, size))
    far = 1.0 - exp(f, -(bounded * bounded.polynomial(*_ERFC)))
    return f.where(size < 1.0, near, far).with_sign_of(x)


def rsqrt(f: Formula, x: Value) -> Value:
    """1 / sqrt(x): two roundings."""
    return 1.0 / x.sqrt()


EXPANSIONS: Mapping[str, Callable[[Formula, Value], Value]] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": exp10,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "rsqrt": rsqrt,
}
"""The functions by the name of TVM's intrinsic."""

ERRORS: Mapping[str, float] = {
    "exp": 1.0,
    "exp2": 1.0,
    "exp10": 2.0,
    "log": 1.0,
    "log2": 2.0,
    "log10": 2.0,
    "log1p": 2.0,
    "tanh": 2.0,
    "sigmoid": 2.0,
    "erf": 1.5,
    "rsqrt": 1.5,
}
"""Largest error of each, in units in the last place."""
