"""sin and cos over all float32 magnitudes, against float64 and mpmath, and at the special arguments."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T

EXACT = {"sin": mpmath.sin, "cos": mpmath.cos}
ULPS = 1.5


def elementwise(name, n):
    function = getattr(T, name)

    @T.prim_func
    def kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 4096)) as bx:
            for i in T.Parallel(4096):
                Y[bx * 4096 + i] = function(X[bx * 4096 + i])

    return kernel


@pytest.fixture(scope="module")
def function():
    made = {}

    def run(name, values):
        if name not in made:
            made[name] = tl.compile(elementwise(name, T.dynamic("n")), target="cpu")
        source = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
        out = torch.full_like(source, 99.0)
        made[name](source, out)
        return out.numpy()

    return run


def errors(found, exact):
    spacing = np.spacing(np.maximum(np.abs(exact.astype(np.float32)), np.float32(1.1754944e-38))).astype(np.float64)
    return np.abs(found.astype(np.float64) - exact) / spacing


@pytest.mark.parametrize("name", EXACT)
def test_small_arguments(function, name):
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [rng.uniform(-10, 10, 400_000), rng.uniform(-1e5, 1e5, 400_000), rng.uniform(-1e-3, 1e-3, 200_000)]
    )
    x = x.astype(np.float32)
    assert errors(function(name, x), getattr(np, name)(x.astype(np.float64))).max() <= ULPS


@pytest.mark.parametrize("name", EXACT)
def test_every_magnitude(function, name):
    """Exact values for arguments up to the largest float32, and those nearest to multiples of pi/2."""
    rng = np.random.default_rng(9)
    x = rng.integers(0, 0x7F800000, 3000, dtype=np.uint32).view(np.float32)
    multiples = (np.arange(1, 3000, dtype=np.float64) ** 3 * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, -x, multiples, np.nextafter(multiples, np.float32(0))])
    with mpmath.workdps(80):
        exact = np.array([float(EXACT[name](mpmath.mpf(float(value)))) for value in x])
    assert errors(function(name, x), exact).max() <= ULPS


def test_special_values(function):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40] * 9, dtype=np.float32)
    sine, cosine = function("sin", x), function("cos", x)
    for found, want in (
        (sine[:7], [0.0, -0.0, np.nan, np.nan, np.nan, 1e-40, -1e-40]),
        (cosine[:7], [1, 1] + [np.nan] * 3 + [1, 1]),
    ):
        want = np.array(want, dtype=np.float32)
        assert np.array_equal(found, want, equal_nan=True)
        assert np.array_equal(np.signbit(found[:2]), np.signbit(want[:2]))


def test_a_vector_with_one_large_argument(function):
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    x[5] = 1e30
    assert errors(function("sin", x), np.sin(x.astype(np.float64)))[[i for i in range(64) if i != 5]].max() <= ULPS
