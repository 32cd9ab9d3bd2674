"""Floating-point arithmetic with a rounding mode, exactly as IEEE 754 defines it, in numpy.

The result of an operation on finite operands is a rational number, or one that lies strictly between two rationals
(square roots); it is computed as such and rounded once. Only the reference needs this: a target that has the modes
prints an instruction, every other refuses them.

>>> import numpy as np
>>> float(meaning("add", "ru")(np.float32(1), np.float32(1e-20))) > 1
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

Mode = Literal["rn", "rz", "ru", "rd"]
MODES: tuple[Mode, ...] = ("rn", "rz", "ru", "rd")
ARITIES = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1, "rsqrt": 1}
"""Operation to the number of its operands."""

_DIGITS = 1200
"""Binary digits behind the point of a root: more than twice as many as any float64 has."""


def _root(value: Fraction) -> Fraction:
    """The square root, or where it is irrational a rational on the same side of every float."""
    scaled = (value.numerator << 2 * _DIGITS) // value.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and scaled * value.denominator == value.numerator << 2 * _DIGITS
    return Fraction(2 * root + (not exact), 2 << _DIGITS)


_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
    "sqrt": _root,
    "rsqrt": lambda x: _root(1 / x),
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
}
_SUMS = frozenset({"add", "sub", "fma"})


def meaning(operation: str, mode: Mode) -> Callable[..., Any]:
    """The elementwise numpy function of `operation` (of `ARITIES`) on float32 or float64, rounded by `mode`."""

    def compute(*operands: Any) -> Any:
        import numpy as np

        kind = np.asarray(operands[0]).dtype.type

        def one(*values: Any) -> Any:
            with np.errstate(all="ignore"):
                return _one(operation, mode, [kind(value) for value in values])

        return np.vectorize(one, otypes=[kind])(*operands)[()]

    return compute


def _one(operation: str, mode: Mode, values: list[Any]) -> Any:
    if not all(math.isfinite(value) for value in values) or _leaves_the_numbers(operation, values):
        return _special(operation, values)
    exact = _EXACT[operation](*(Fraction(float(value)) for value in values))
    if exact == 0:
        return _zero(operation, mode, values)
    return rounded(exact, type(values[0]), mode)


def _leaves_the_numbers(operation: str, values: list[Any]) -> bool:
    """Whether finite operands give an infinity or NaN that no rounding decides."""
    if operation in ("div", "rcp"):
        return bool(values[-1] == 0)
    if operation == "rsqrt":
        return bool(values[0] <= 0)
    return bool(operation == "sqrt" and values[0] < 0)


def _special(operation: str, values: list[Any]) -> Any:
    """The result that involves NaN or infinities, the same in every mode."""
    import numpy as np

    if operation in ("sqrt", "rsqrt"):
        root = np.sqrt(values[0])
        return root if operation == "sqrt" else type(values[0])(1) / root
    if operation == "rcp":
        return type(values[0])(1) / values[0]
    return _PLAIN[operation](*values)


def _zero(operation: str, mode: Mode, values: list[Any]) -> Any:
    """An exact zero: a sum of zeros of one sign keeps it, any other sum is -0 when rounding down and +0 otherwise."""
    kind = type(values[0])
    if operation == "sqrt":
        return values[0]
    if operation not in _SUMS:
        return kind(_PLAIN[operation](*values))
    first = values[0] * values[1] if operation == "fma" else values[0]
    second = values[-1] if operation != "sub" else -values[-1]
    signs = {math.copysign(1, first), math.copysign(1, second)}
    if len(signs) == 1 and first == 0:
        return kind(math.copysign(0, first))
    return kind(-0.0 if mode == "rd" else 0.0)


def rounded(exact: Fraction, kind: type[Any], mode: Mode) -> Any:
    """A rational number other than 0 as a float of numpy's `kind`."""
    below = _below(exact, kind)
    above = below if _is(below, exact) else -_below(-exact, kind)
    if mode == "rd" or (mode == "rz" and exact > 0):
        return below
    if mode == "ru" or mode == "rz":
        return above
    return _nearer(exact, below, above, kind)


def _is(value: Any, exact: Fraction) -> bool:
    return math.isfinite(value) and Fraction(float(value)) == exact


def _below(exact: Fraction, kind: type[Any]) -> Any:
    """The largest float that is not above `exact`."""
    import numpy as np

    largest = np.finfo(kind).max
    if exact >= Fraction(float(largest)):
        return largest
    if exact < -Fraction(float(largest)):
        return kind(-math.inf)
    near = kind(float(exact))
    return near if Fraction(float(near)) <= exact else np.nextafter(near, kind(-math.inf))


def _nearer(exact: Fraction, below: Any, above: Any, kind: type[Any]) -> Any:
    """The nearer of two neighbours, the even one of two that are equally near."""
    import numpy as np

    if math.isinf(below) or math.isinf(above):
        largest = Fraction(float(np.finfo(kind).max))
        step = largest - Fraction(float(np.nextafter(np.finfo(kind).max, kind(0))))
        overflows = abs(exact) >= largest + step / 2
        return (above if exact > 0 else below) if overflows else (below if exact > 0 else above)
    down, up = exact - Fraction(float(below)), Fraction(float(above)) - exact
    if down != up:
        return below if down < up else above
    bits = np.asarray(below).view(f"u{np.dtype(kind).itemsize}")
    return below if int(bits) % 2 == 0 else above
