"""How far the elementary functions of a target are from the exact values.

    python -m tile_core.testing.accuracy [--target cpu] [--arch x86-64-v3] [--points 1000000] [--exact]

Prints a table: the largest error of each function of float32 in units in the last place, and where it is. The points
are random bit patterns of every magnitude, dense parts where functions bend, and the last arguments before a result
overflows or vanishes. Errors are measured against float64, whose own error is below 1e-6 of such a unit; the worst
points are computed again by mpmath in 40 digits, and so are all points with `--exact`, which takes minutes. Special
arguments must give their special values, signs of zeros included.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_DIGITS = 40
_WORST = 32
_INF, _NAN = float("inf"), float("nan")
_SMALLEST = 1.1754943508222875e-38
"""The smallest normal float32: below it, units in the last place stay the same."""


@dataclass(frozen=True)
class Function:
    """A function of one or two float32.

    `double` is its meaning in float64 arrays, `exact` that in mpmath numbers. `low` and `high` bound the first
    argument; `edges` are arguments around which every float32 is tried. `special` are arguments with the only right
    result.
    """

    name: str
    double: Callable[..., Any]
    exact: Callable[..., Any]
    low: float = -_INF
    high: float = _INF
    edges: tuple[float, ...] = ()
    special: tuple[tuple[float | tuple[float, ...], float], ...] = ()
    arity: int = 1


@dataclass(frozen=True)
class Measured:
    """The largest error of a function in units in the last place, where it is, and which special values are wrong."""

    name: str
    points: int
    ulps: float
    at: tuple[float, ...]
    wrong: tuple[str, ...] = field(default=())


def _erf(x: Doubles) -> Any:
    import torch

    return torch.erf(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def _mp(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        import mpmath

        return getattr(mpmath, name)(*arguments)

    return call


def _sigmoid(x: Doubles) -> Any:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x)))


_ODD = ((0.0, 0.0), (-0.0, -0.0))
_NO_LIMIT = ((_INF, _NAN), (-_INF, _NAN))
_LOGARITHM = ((1.0, 0.0), (0.0, -_INF), (-0.0, -_INF), (_INF, _INF), (-1.0, _NAN), (-_INF, _NAN))
_EXPONENTIAL = ((0.0, 1.0), (-0.0, 1.0), (_INF, _INF), (-_INF, 0.0), (1e30, _INF), (-1e30, 0.0))

FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for function in (
        Function("exp", np.exp, _mp("exp"), edges=(88.72, -87.33, -103.97), special=_EXPONENTIAL),
        Function(
            "exp2",
            np.exp2,
            lambda x: _mp("power")(2, x),
            edges=(127.99, -126.0, -149.0),
            special=(*_EXPONENTIAL, (10.0, 1024.0), (-149.0, 2.0**-149), (128.0, _INF)),
        ),
        Function(
            "exp10",
            lambda x: np.power(10.0, x),
            lambda x: _mp("power")(10, x),
            edges=(38.53, -37.93, -45.15),
            special=_EXPONENTIAL,
        ),
        Function("log", np.log, _mp("log"), low=0.0, edges=(1.0,), special=_LOGARITHM),
        Function(
            "log2",
            np.log2,
            lambda x: _mp("log")(x, 2),
            low=0.0,
            edges=(1.0,),
            special=(*_LOGARITHM, (8.0, 3.0), (2.0**-149, -149.0)),
        ),
        Function("log10", np.log10, _mp("log10"), low=0.0, edges=(1.0,), special=_LOGARITHM),
        Function(
            "log1p",
            np.log1p,
            _mp("log1p"),
            low=-1.0,
            edges=(0.0, -1.0),
            special=(*_ODD, (-1.0, -_INF), (_INF, _INF), (-2.0, _NAN), (-_INF, _NAN)),
        ),
        Function("sqrt", np.sqrt, _mp("sqrt"), low=0.0, special=(*_ODD, (_INF, _INF), (-1.0, _NAN), (-_INF, _NAN))),
        Function(
            "rsqrt",
            lambda x: 1.0 / np.sqrt(x),
            lambda x: 1 / _mp("sqrt")(x),
            low=0.0,
            special=((0.0, _INF), (-0.0, -_INF), (_INF, 0.0), (-1.0, _NAN), (-_INF, _NAN), (4.0, 0.5)),
        ),
        Function(
            "tanh",
            np.tanh,
            _mp("tanh"),
            edges=(0.625, 9.01),
            special=(*_ODD, (_INF, 1.0), (-_INF, -1.0), (1e30, 1.0), (-1e-40, -1e-40)),
        ),
        Function(
            "sigmoid",
            _sigmoid,
            lambda x: 1 / (1 + _mp("exp")(-x)),
            edges=(-87.33, -103.97),
            special=((0.0, 0.5), (_INF, 1.0), (-_INF, 0.0), (200.0, 1.0), (-200.0, 0.0)),
        ),
        Function("erf", _erf, _mp("erf"), edges=(1.0, 3.9), special=(*_ODD, (_INF, 1.0), (-_INF, -1.0), (5.0, 1.0))),
        Function("sin", np.sin, _mp("sin"), special=(*_ODD, *_NO_LIMIT)),
        Function("cos", np.cos, _mp("cos"), special=((0.0, 1.0), (-0.0, 1.0), *_NO_LIMIT)),
        Function("tan", np.tan, _mp("tan"), special=(*_ODD, *_NO_LIMIT)),
        Function("asin", np.arcsin, _mp("asin"), low=-1.0, high=1.0, edges=(0.5,), special=(*_ODD, (1.5, _NAN))),
        Function("acos", np.arccos, _mp("acos"), low=-1.0, high=1.0, edges=(0.5,), special=((1.0, 0.0), (1.5, _NAN))),
        Function("atan", np.arctan, _mp("atan"), edges=(1.0,), special=_ODD),
        Function("sinh", np.sinh, _mp("sinh"), edges=(89.41,), special=(*_ODD, (_INF, _INF), (-_INF, -_INF))),
        Function("cosh", np.cosh, _mp("cosh"), edges=(89.41,), special=((0.0, 1.0), (_INF, _INF), (-_INF, _INF))),
        Function("asinh", np.arcsinh, _mp("asinh"), special=(*_ODD, (_INF, _INF), (-_INF, -_INF))),
        Function("acosh", np.arccosh, _mp("acosh"), low=1.0, edges=(1.0,), special=((1.0, 0.0), (0.5, _NAN))),
        Function(
            "atanh",
            np.arctanh,
            _mp("atanh"),
            low=-1.0,
            high=1.0,
            special=(*_ODD, (1.0, _INF), (-1.0, -_INF), (2.0, _NAN)),
        ),
        Function(
            "pow",
            np.power,
            _mp("power"),
            low=0.0,
            special=(
                ((2.0, 10.0), 1024.0),
                ((0.0, 0.0), 1.0),
                ((_NAN, 0.0), 1.0),
                ((1.0, _NAN), 1.0),
                ((-2.0, 3.0), -8.0),
            ),
            arity=2,
        ),
        Function("atan2", np.arctan2, _mp("atan2"), special=(((0.0, 1.0), 0.0), ((-0.0, 1.0), -0.0)), arity=2),
        Function("hypot", np.hypot, _mp("hypot"), special=(((3.0, 4.0), 5.0), ((_INF, _NAN), _INF)), arity=2),
    )
}
"""The functions that are measured, by their name in the language."""


def points(function: Function, count: int, seed: int = 7) -> tuple[Floats, ...]:
    """About `count` arguments of a function, one array for each operand."""
    rng = np.random.default_rng(seed)
    arguments = []
    for position in range(function.arity):
        bits = rng.integers(0, 0x7F800000, count // 2, dtype=np.uint32).view(np.float32)
        signs = np.where(rng.random(len(bits)) < 0.5, np.float32(1), np.float32(-1))
        wide = rng.uniform(-110, 110, count // 4)
        dense = rng.uniform(-2, 2, count - len(bits) - len(wide))
        values = np.concatenate([bits * signs, wide.astype(np.float32), dense.astype(np.float32)])
        # Operands of different kinds meet.
        values = np.roll(values, position * (count // 3))
        arguments.append(_inside(function, values) if position == 0 else values)
    edges = [_around(edge) for edge in function.edges]
    return (np.concatenate([arguments[0], _inside(function, np.concatenate(edges))]),) if edges else tuple(arguments)


def _inside(function: Function, values: Floats) -> Floats:
    if function.low >= 0:
        values = np.abs(values)
    outside = (values < function.low) | (values > function.high)
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / values
    return np.where(outside, inverse if abs(function.low) <= 1 else np.float32(1), values).astype(np.float32)


def _around(edge: float, count: int = 2000) -> Floats:
    """The float32 numbers around `edge`, `count` on each side."""
    near = np.float32(edge or _SMALLEST)
    return (near.view(np.int32) + np.arange(-count, count, dtype=np.int32)).view(np.float32)


def errors(found: Floats, exact: Doubles) -> Doubles:
    """The distance of `found` to the exact values in units in the last place; infinite where it is of another kind.

    An infinity counts as the number that would follow the largest float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        single = exact.astype(np.float32)
        # The largest power of two has the unit of all numbers up to the end.
        size = np.minimum(np.abs(single), np.float32(2.0**127))
        unit = np.spacing(np.maximum(size, np.float32(_SMALLEST))).astype(np.float64)
        value = np.where(np.isinf(found), np.copysign(np.float64(2.0**128), found), found.astype(np.float64))
        right = (np.isnan(found) & np.isnan(exact)) | (found == single)
        distance = np.abs(value - np.where(np.isinf(exact), np.copysign(_INF, exact), exact)) / unit
    distance = np.where(np.isnan(distance), _INF, distance)
    return np.where(right & ~np.isfinite(found), 0.0, distance)


def exact_values(function: Function, arguments: Sequence[Floats]) -> Doubles:
    """The exact results, rounded to float64, by mpmath."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        rows = zip(*(argument.tolist() for argument in arguments), strict=True)
        values = [_number(function.exact(*(mpmath.mpf(value) for value in row))) for row in rows]
    return np.array(values, dtype=np.float64)


def _number(value: Any) -> float:
    import mpmath

    if not isinstance(value, mpmath.mpf):
        return _NAN
    # A float of Python overflows with an exception.
    return float(value) if abs(value) < mpmath.mpf(10) ** 300 else float(mpmath.sign(value)) * _INF


def compiled(name: str, target: Any = "cpu") -> Callable[..., Floats]:
    """The function `name` of the language on float32 arrays of any length, compiled for `target`."""
    import torch

    import tile_core as tl
    from tile_core.testing.programs.elementwise import function_of

    kernel = tl.compile(function_of(name, FUNCTIONS[name].arity), target=target)

    def run(*arguments: Floats) -> Floats:
        tensors = [torch.from_numpy(np.ascontiguousarray(argument)) for argument in arguments]
        out = torch.full_like(tensors[0], 99.0)
        kernel(tensors[0], tensors[-1], out)
        result: Floats = out.numpy()
        return result

    return run


def measure(name: str, run: Callable[..., Floats], count: int, *, exact: bool = False) -> Measured:
    """The errors of `run`, which computes the function `name`, over about `count` points and the special ones."""
    function = FUNCTIONS[name]
    arguments = points(function, count)
    found = run(*arguments)
    if exact:
        ulps = errors(found, exact_values(function, arguments))
    else:
        with np.errstate(all="ignore"):
            ulps = errors(found, function.double(*(argument.astype(np.float64) for argument in arguments)))
        worst = np.argsort(ulps)[-_WORST:]
        ulps = np.where(np.isin(np.arange(len(ulps)), worst), ulps, 0.0)
        ulps[worst] = errors(found[worst], exact_values(function, [argument[worst] for argument in arguments]))
    at = int(np.argmax(ulps))
    place = tuple(float(argument[at]) for argument in arguments)
    return Measured(name, len(found), float(ulps[at]), place, tuple(wrong_specials(function, run)))


def wrong_specials(function: Function, run: Callable[..., Floats]) -> list[str]:
    """The special arguments whose result is not the only right one; NaN belongs to every function of one operand."""
    cases = [*function.special, *(((_NAN, _NAN),) if function.arity == 1 else ())]
    rows = [case[0] if isinstance(case[0], tuple) else (case[0],) for case in cases]
    arguments = [np.array(column, dtype=np.float32) for column in zip(*rows, strict=True)]
    found, want = run(*arguments), np.array([result for _, result in cases], dtype=np.float32)
    same = (np.isnan(found) & np.isnan(want)) | ((found == want) & (np.signbit(found) == np.signbit(want)))
    return [
        f"{function.name}({', '.join(map(str, rows[at]))}) is {found[at]}, not {want[at]}"
        for at in np.flatnonzero(~same)
    ]


def table(results: Sequence[Measured]) -> str:
    """The results as a table in Markdown."""
    lines = ["| function | largest error | at | points | special values |", "|---|---|---|---|---|"]
    for result in results:
        place = ", ".join(f"{value:.9g}" for value in result.at)
        special = "; ".join(result.wrong) or "exact"
        lines.append(f"| `{result.name}` | {result.ulps:.3f} | {place} | {result.points} | {special} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is 1 where a special value is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tile_core.testing.accuracy", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--target", default="cpu", help="the target kind")
    parser.add_argument("--arch", help="its architecture")
    parser.add_argument("--points", type=int, default=1_000_000, help="how many arguments each function gets")
    parser.add_argument("--exact", action="store_true", help="compute every exact value by mpmath")
    parser.add_argument("--only", nargs="*", choices=sorted(FUNCTIONS), metavar="NAME", help="these functions alone")
    options = parser.parse_args(arguments)
    target = {"kind": options.target, "arch": options.arch} if options.arch else options.target
    names = options.only or list(FUNCTIONS)
    results = [measure(name, compiled(name, target), options.points, exact=options.exact) for name in names]
    print(table(results))  # noqa: T201 - the command's output
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
