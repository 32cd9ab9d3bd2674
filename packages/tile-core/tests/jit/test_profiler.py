"""The profiler: inputs, times, comparisons."""

from __future__ import annotations

import time

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors
from tile_core.jit.profiler import TensorSupplyType


@pytest.fixture
def kernel(fake, programs):
    return tl.compile(programs.add(50), out_idx=-1)


def test_inputs_are_those_of_the_kernel_and_repeat(kernel):
    first, second = kernel.get_profiler().inputs(), kernel.get_profiler().inputs()
    assert [tuple(t.shape) for t in first] == [(50,), (50,)]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize(
    ("supply", "right"),
    [
        (TensorSupplyType.Zero, lambda t: (t == 0).all()),
        (TensorSupplyType.One, lambda t: (t == 1).all()),
        (TensorSupplyType.Integer, lambda t: (t == t.round()).all() and t.abs().max() <= 2),
        (TensorSupplyType.Uniform, lambda t: t.abs().max() <= 1 and t.min() < 0),
        (TensorSupplyType.Normal, lambda t: 0.5 < t.std() < 2),
        (TensorSupplyType.Auto, lambda t: 0.5 < t.std() < 2),
    ],
)
def test_supply_types(kernel, supply, right):
    assert right(kernel.get_profiler(supply).inputs()[0])


def test_times_are_milliseconds(kernel):
    profiler = kernel.get_profiler()
    slept = profiler.do_bench(lambda *_: time.sleep(0.002), n_warmup=1, n_repeat=5)
    assert 2 <= slept < 20
    assert profiler.do_bench(rep=5, warmup=1) > 0
    calls = []
    profiler.do_bench(calls.append, input_tensors=[1], n_warmup=3, n_repeat=4)
    assert len(calls) == 1 + 3 + 4


def test_summaries(kernel):
    waits = iter([0.0, 0.001, 0.002, 0.003, 0.02])

    def call(*_):
        time.sleep(next(waits))

    low, middle, high = kernel.get_profiler().do_bench(call, n_warmup=1, n_repeat=3, quantiles=[0, 0.5, 1])
    assert low < middle < high
    with pytest.raises(errors.ProfilerError, match="'fastest'"):
        kernel.get_profiler().do_bench(return_mode="fastest")
    with pytest.raises(errors.ProfilerError, match="between 0 and 1"):
        kernel.get_profiler().do_bench(n_warmup=1, n_repeat=1, quantiles=[2])


def test_symbolic_kernels_need_inputs(fake, programs):
    profiler = tl.compile(programs.add(T.dynamic("n")), out_idx=-1).get_profiler()
    with pytest.raises(errors.ProfilerError, match="input_tensors="):
        profiler.do_bench()
    assert profiler.do_bench(input_tensors=[torch.ones(3), torch.ones(3)], rep=1, warmup=0) > 0


def test_assert_allclose(kernel):
    profiler = kernel.get_profiler()
    profiler.assert_allclose(lambda a, b: a + b)
    with pytest.raises(errors.ResultMismatchError, match="100.00% of the elements differ"):
        profiler.assert_allclose(lambda a, b: a + b + 1)
    with pytest.raises(errors.ResultMismatchError, match="shape"):
        profiler.assert_allclose(lambda a, b: (a + b)[:3])
    with pytest.raises(errors.ResultMismatchError):
        profiler.assert_allclose(lambda a, b: (a + b) * float("nan"))
    profiler.assert_allclose(lambda a, b: (a + b).index_fill(0, torch.tensor([0]), 9.0), max_mismatched_ratio=0.05)


def test_assert_allclose_of_a_kernel_that_writes_its_arguments(fake, programs):
    profiler = tl.compile(programs.add(50)).get_profiler()
    profiler.assert_allclose(lambda a, b, c: a + b)

    def in_place(a, b, c):
        c.copy_(a + b)

    profiler.assert_allclose(in_place)
    with pytest.raises(errors.ResultMismatchError):
        profiler.assert_allclose(lambda a, b, c: a - b)


def test_assert_consistent(kernel, fake, programs):
    kernel.get_profiler().assert_consistent(3)
    assert torch.equal(kernel.get_profiler().run_once(), sum(kernel.get_profiler().inputs()))
