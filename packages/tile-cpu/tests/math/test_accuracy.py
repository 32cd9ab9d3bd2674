"""Every function within two units in the last place of mpmath, and exact where there is only one right result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tile_core.testing import accuracy
from tile_cpu.math.float32 import ERRORS

POINTS = {"host": 100_000, "x86-64": 10_000, "x86-64-v3": 10_000, "armv8-a": 10_000}
LARGEST = 2.0
UNFUSED = "x86-64"
"""Without a fused multiply-add, `ERRORS` does not hold, the bound of two units does."""


@pytest.mark.parametrize("name", accuracy.FUNCTIONS)
@pytest.mark.parametrize("arch", POINTS)
def test_accuracy(level: Callable[[str], dict[str, str]], arch: str, name: str) -> None:
    run = accuracy.compiled(name, level(arch))
    result = accuracy.measure(name, run, POINTS[arch])
    assert result.wrong == ()
    assert result.ulps <= (LARGEST if arch == UNFUSED else ERRORS.get(name, LARGEST)), result


@pytest.mark.parametrize("name", accuracy.FUNCTIONS)
def test_float64_is_good_enough_to_measure_by(name: str) -> None:
    function = accuracy.FUNCTIONS[name]
    arguments = accuracy.points(function, 300)
    picked = np.random.default_rng(3).choice(len(arguments[0]), 300, replace=False)
    arguments = tuple(argument[picked] for argument in arguments)
    with np.errstate(all="ignore"):
        near = function.double(*(argument.astype(np.float64) for argument in arguments))
    exact = accuracy.exact_values(function, arguments)
    finite = np.abs(exact) < 1e300
    np.testing.assert_allclose(near[finite], exact[finite], rtol=1e-13)


def test_a_wrong_function_is_found() -> None:
    """One unit too much, a special value that is missed, an infinity too early."""
    run = accuracy.compiled("exp")
    assert accuracy.measure("exp", lambda x: np.nextafter(run(x), np.float32(9e9)), 1000).ulps > 1
    assert accuracy.measure("exp", lambda x: np.where(np.isnan(x), np.float32(1), run(x)), 1000).wrong
    early = accuracy.measure("exp", lambda x: np.where(x > 88.0, np.float32(np.inf), run(x)), 1000)
    assert early.ulps > 1000


def test_errors_in_units_in_the_last_place() -> None:
    largest = float(np.finfo(np.float32).max)
    cases = [
        (1.0, 1.0, 0.0),
        (1.0 + 2**-23, 1.0, 1.0),
        (np.inf, largest, 1.0),
        (largest, 2.0**128, 1.0),
        (np.inf, 1e300, 0.0),
        (np.nan, np.nan, 0.0),
        (np.nan, 1.0, np.inf),
        (-np.inf, np.inf, np.inf),
        (0.0, 2.0**-149, 1.0),
        (2.0**-149, 1.5 * 2.0**-149, 0.5),
    ]
    found, exact, expected = zip(*cases, strict=True)
    assert accuracy.errors(np.array(found, dtype=np.float32), np.array(exact)).tolist() == list(expected)
