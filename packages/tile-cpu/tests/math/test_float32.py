"""Functions of float32 as arithmetic: remainders, narrow floats, powers. `test_accuracy` measures them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ops.build import parallel
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import facts_of
from tile_cpu.passes.expand_math import ExpandMath
from tile_cpu.passes.import_functions import ImportFunctions
from tile_cpu.passes.vectorize_loops import VectorizeLoops
from tile_cpu.target import capabilities, parse_target

INF, NAN = float("inf"), float("nan")


def context():
    return PassContext(None, SimpleNamespace(facts=facts_of(capabilities(parse_target("cpu", {}))).__dict__), None)


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
