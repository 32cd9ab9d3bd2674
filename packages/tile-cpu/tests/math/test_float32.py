"""Accuracy of the vector functions against mpmath and float64, and their values at the special arguments."""

from __future__ import annotations

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ops.build import parallel
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import cpu_facts, host_target
from tile_cpu.math.float32 import ERRORS, EXPANSIONS
from tile_cpu.passes.expand_math import ExpandMath
from tile_cpu.passes.import_functions import ImportFunctions
from tile_cpu.passes.vectorize_loops import VectorizeLoops

REFERENCE = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x))),
    "erf": lambda x: torch.erf(torch.from_numpy(x)).numpy(),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}
EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "exp10": lambda x: mpmath.mpf(10) ** x,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
POSITIVE = {"log", "log2", "log10", "rsqrt"}


def context():
    return PassContext(None, SimpleNamespace(facts=cpu_facts(*host_target()).__dict__), None)


def lowered(func):
    """`func` after the passes that functions of vectors go through."""
    for step in (ExpandMath(), VectorizeLoops(), ImportFunctions()):
        func = step(func, context())
    return func


@pytest.fixture(scope="module")
def function(build):
    """`function(name)`: the compiled elementwise function."""
    made = {}

    def compiled(name):
        if name not in made:
            n = tirx.Var("n", "int32")
            X, Y = (tirx.decl_buffer((n,), "float32", label, data_alignment=4) for label in "XY")
            call = getattr(tirx, name)
            body = parallel([n], lambda i: S.BufferStore(Y, call(tirx.BufferLoad(X, i)), i))
            made[name] = build(lowered(tirx.PrimFunc([X, Y], body)))
        return made[name]

    def run(name, values):
        source = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
        out = torch.full_like(source, 99.0)
        compiled(name)(source, out)
        return out.numpy()

    return run


def every_magnitude(name, count=10**6):
    """Random bit patterns of both signs, dense parts where the function bends, subnormals included."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 0x7F800000, count // 2, dtype=np.uint32).view(np.float32)
    bits *= np.where(rng.random(len(bits)) < 0.5, 1, -1).astype(np.float32)
    near = rng.uniform(-110, 110, count // 4).astype(np.float32)
    dense = rng.uniform(-2, 2, count // 4).astype(np.float32)
    values = np.concatenate([bits, near, dense])
    if name in POSITIVE:
        values = np.abs(values)
    return np.maximum(values, np.float32(-0.9999999)) if name == "log1p" else values


def ulps(found, exact):
    """The error in units in the last place of the exact value."""
    single = exact.astype(np.float32)
    spacing = np.spacing(np.maximum(np.abs(single), np.float32(1.1754944e-38))).astype(np.float64)
    finite = np.isfinite(single) & np.isfinite(found)
    assert np.array_equal(single[~finite], found[~finite], equal_nan=True)
    return np.abs(found[finite].astype(np.float64) - exact[finite]) / spacing[finite]


@pytest.mark.parametrize("name", EXPANSIONS)
def test_accuracy(function, name):
    x = every_magnitude(name)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.float64))
    with np.errstate(over="ignore"):
        error = ulps(function(name, x), exact)
    assert error.max() <= ERRORS[name], float(error.max())


@pytest.mark.parametrize("name", EXPANSIONS)
def test_reference_against_mpmath(name):
    """The float64 references are good enough to measure float32 by."""
    x = every_magnitude(name, 800)
    x = x[np.abs(x) < 80] if "exp" in name or name in ("tanh", "sigmoid", "erf") else x[x != 0]
    with mpmath.workdps(30):
        exact = np.array([float(EXACT[name](mpmath.mpf(float(value)))) for value in x])
    np.testing.assert_allclose(REFERENCE[name](x.astype(np.float64)), exact, rtol=1e-13)


INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (89, INF), (-104, 0), (1e30, INF), (-1e30, 0)],
    "exp2": [(0, 1), (10, 1024), (-149, 2.0**-149), (128, INF), (-150, 0), (INF, INF), (-INF, 0)],
    "exp10": [(0, 1), (INF, INF), (-INF, 0), (39, INF), (-46, 0)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "log2": [(1, 0), (8, 3), (2.0**-149, -149), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "log10": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-2, NAN), (-INF, NAN), (1e-40, 1e-40)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e30, 1), (-20, -1), (-1e-40, -1e-40)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0), (200, 1), (-200, 0)],
    "rsqrt": [(1, 1), (0, INF), (-0.0, -INF), (INF, 0), (-1, NAN), (-INF, NAN), (4, 0.5), (2.0**-148, 2.0**74)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (5, 1), (-1e30, -1)],
}


@pytest.mark.parametrize("name", EXPANSIONS)
def test_special_values(function, name):
    arguments, results = zip(*SPECIAL[name], (NAN, NAN), strict=True)
    found, want = function(name, arguments), np.array(results, dtype=np.float32)
    assert np.array_equal(found, want, equal_nan=True), dict(zip(arguments, found, strict=True))
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(found[known]), np.signbit(want[known]))


def test_remainder_has_the_same_bits_as_the_main_part(function):
    x = np.linspace(-5, 5, 37, dtype=np.float32)
    whole = function("exp", x)
    for size in (1, 7, 17):
        assert np.array_equal(function("exp", x[:size]), whole[:size])


def test_narrow_floats_compute_in_float32(build):
    X, Y = (tirx.decl_buffer((40,), "float16", label, data_alignment=2) for label in "XY")
    n = tirx.IntImm("int32", 40)
    body = parallel([n], lambda i: S.BufferStore(Y, tirx.exp(tirx.BufferLoad(X, i)), i))
    func = lowered(tirx.PrimFunc([X, Y], body))
    source = torch.linspace(-9, 9, 40).half()
    out = torch.zeros_like(source)
    build(func)(source, out)
    assert torch.equal(out, source.float().exp().half())


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_constant_powers_are_products(build, dtype, exponent):
    X, Y = (tirx.decl_buffer((1000,), dtype, label, data_alignment=4) for label in "XY")
    operator = tirx.pow(X[0], X[0]).op

    def power(i):
        return ir.Call(operator, [tirx.BufferLoad(X, i), tirx.FloatImm(dtype, exponent)], ret_ty=dtype)

    body = parallel([tirx.IntImm("int32", 1000)], lambda i: S.BufferStore(Y, power(i), i))
    func = ExpandMath()(tirx.PrimFunc([X, Y], body), context())
    assert "pow" not in func.script()
    source = torch.randn(1000, dtype=getattr(torch, dtype)) * 100
    source[:5] = torch.tensor([0.0, -0.0, INF, -INF, NAN])
    out = torch.full_like(source, 99.0)
    build(VectorizeLoops()(func, context()))(source, out)
    eps = 1.5 * torch.finfo(source.dtype).eps
    torch.testing.assert_close(out, source**exponent, rtol=eps, atol=0, equal_nan=True)
    assert torch.equal(out[:2].signbit(), (source[:2] ** exponent).signbit())
