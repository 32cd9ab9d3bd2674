"""Calls that begin in machine code (`tile_core/jit/direct.py`) do what calls through Python do, for every argument."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import (
    ArgumentCountError,
    ArgumentError,
    ArgumentLayoutError,
    DeviceAssertError,
    KeywordArgumentError,
)


@T.prim_func
def add(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32), C: T.Tensor((8,), T.float32)):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            C[i] = A[i] + B[i]


@T.prim_func
def scalars(whole: T.int64, small: T.int8, real: T.float32, truth: T.bool, A: T.Tensor((3,), T.float64)):
    with T.Kernel(1, threads=32):
        A[0] = T.cast(whole, "float64") + T.cast(small, "float64")
        A[1] = T.cast(real, "float64")
        A[2] = T.if_then_else(truth, 1.0, 2.0)


@T.prim_func
def count(A: T.Tensor((1,), T.int32), limit: T.int32):
    with T.Kernel(1, threads=32):
        A[0] = A[0] + 1
        T.device_assert(A[0] < limit, "too often")


@pytest.fixture
def kernel() -> Any:
    """The add after a first call, so that the next begins in machine code."""
    kernel = tl.compile(add, target="cpu")
    kernel(*tensors())
    assert isinstance(kernel.__call__, BuiltinFunctionType)
    return kernel


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.arange(8.0), torch.full((8,), 0.5), torch.full((8,), torch.nan)


def test_writes_in_place_and_returns_nothing(kernel):
    a, b, c = tensors()
    assert kernel(a, b, c) is None
    assert torch.equal(c, a + b)
    assert kernel(c, c, c) is None
    assert torch.equal(c, 2 * (a + b))


def test_takes_parameters_and_subclasses(kernel):
    class Named(torch.Tensor):
        pass

    a, b, c = tensors()
    kernel(torch.nn.Parameter(a), b.as_subclass(Named), c)
    assert torch.equal(c, a + b)


def test_takes_arrays_beside_tensors(kernel):
    a, b, c = tensors()
    kernel(a.numpy(), b, c)
    assert torch.equal(c, a + b)
    out = np.zeros(8, np.float32)
    kernel(a, b, out)
    assert np.array_equal(out, (a + b).numpy())


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda t: torch._neg_view(t), ArgumentLayoutError),
        (lambda t: t.to_sparse(), ArgumentLayoutError),
        (lambda t: t.to("meta"), ArgumentError),
        (lambda t: t.double(), ArgumentError),
        (lambda t: t[:7], ArgumentError),
        (lambda t: torch.cat([t, t])[::2], ArgumentError),
        (lambda t: torch.zeros(8, dtype=torch.complex64).conj(), ArgumentError),
        (lambda _t: None, ArgumentError),
        (lambda _t: 3, ArgumentError),
        (lambda _t: 1 << 70, ArgumentError),
        (lambda _t: "text", ArgumentError),
    ],
)
def test_refuses_what_python_refuses(kernel, place, make, error):
    arguments = list(tensors())
    arguments[place] = make(arguments[place])
    with pytest.raises(error):
        kernel(*arguments)
    if place != 2:
        assert arguments[2].isnan().all()


def test_lazy_signs_that_nothing_else_shows(kernel):
    z = torch.complex(torch.zeros(8), torch.arange(8.0))
    strided = z.conj().imag
    compact = strided.as_strided((8,), (1,))
    assert compact.is_neg() and compact.is_contiguous()
    for view in (strided, compact):
        a, b, c = tensors()
        with pytest.raises(ArgumentError):
            kernel(view, b, c)
        with pytest.raises(ArgumentError):
            kernel(a, b, view)
        assert c.isnan().all()
        kernel(view.resolve_neg().contiguous(), b, c)
        assert torch.equal(c, view.contiguous() + b)


def test_refuses_tensors_of_a_transformation(kernel):
    a, b, c = tensors()
    with pytest.raises(ArgumentError):
        torch.vmap(lambda row: kernel(row, b, c))(a.expand(2, 8))
    assert c.isnan().all()


def test_refuses_wrong_numbers_and_names(kernel):
    a, b, c = tensors()
    for arguments in ((), (a,), (a, b, c, c)):
        with pytest.raises(ArgumentCountError):
            kernel(*arguments)
    with pytest.raises(KeywordArgumentError):
        kernel(a, b, C=c)


def test_scalars_keep_their_value():
    kernel = tl.compile(scalars, target="cpu")
    out = torch.zeros(3, dtype=torch.float64)
    for _ in range(2):
        for whole, small, real, truth in ((-1, -1, 0.1, True), (2**53, 127, -0.0, False), (-(2**53), -128, 3, 1)):
            kernel(whole, small, real, truth, out)
            wanted = [float(whole + small), float(np.float32(real)), 1.0 if truth else 2.0]
            assert out.tolist() == wanted
    out.fill_(7)
    for wrong in ((2**63, 0, 0.0, True), (0, 128, 0.0, True), (0.5, 0, 0.0, True), (0, 0, None, True)):
        with pytest.raises(ArgumentError):
            kernel(*wrong, out)
    assert out.tolist() == [7.0] * 3


def test_a_failure_runs_once_and_is_told():
    kernel = tl.compile(count, target="cpu")
    counter = torch.zeros(1, dtype=torch.int32)
    kernel(counter, 100)
    with pytest.raises(DeviceAssertError, match="too often") as failed:
        kernel(counter, 1)
    assert counter.item() == 2
    assert failed.value.span is not None
    kernel(counter, 100)
    assert counter.item() == 3


def test_outputs_are_made_and_signs_asked():
    kernel = tl.compile(add, target="cpu", out_idx=-1)
    a, b, _ = tensors()
    for _ in range(2):
        assert torch.equal(kernel(a, b), a + b)
        with pytest.raises(ArgumentLayoutError, match="negative"):
            kernel(a, torch._neg_view(b))


def test_keeps_no_argument(kernel):
    a, b, c = tensors()
    kept = [sys.getrefcount(value) for value in (a, b, c, kernel.__call__)]
    for _ in range(1000):
        kernel(a, b, c)
        with pytest.raises(ArgumentError):
            kernel(a, b, None)
    assert [sys.getrefcount(value) for value in (a, b, c, kernel.__call__)] == kept


@pytest.mark.parametrize("out_idx", [None, -1])
def test_a_kernel_is_freed_with_its_last_user(out_idx):
    # What waits for the garbage collector would keep the loaded code that equal programs share.
    a, b, c = tensors()
    gc.disable()
    try:
        other = tl.compile(add, target="cpu", out_idx=out_idx)
        for _ in range(2):
            other(*((a, b, c) if out_idx is None else (a, b)))
        gone = weakref.ref(other), weakref.ref(other._loaded)
        del other
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_the_function_outlives_its_kernel():
    a, b, c = tensors()
    made = tl.compile(add, target="cpu")
    made(a, b, c)
    call = made.__call__
    del made
    gc.collect()
    c.fill_(torch.nan)
    call(a, b, c)
    assert torch.equal(c, a + b)
    with pytest.raises(ArgumentError):
        call(a, b, c[:3])


def test_threads(kernel):
    wrong = []

    def work(seed: int) -> None:
        a, b, c = torch.full((8,), float(seed)), torch.ones(8), torch.zeros(8)
        for _ in range(500):
            c.zero_()
            kernel(a, b, c)
            try:
                kernel(a, b, c[:seed])
            except ArgumentError as error:
                if f"{seed}" not in str(error):
                    wrong.append(str(error))
            if c.tolist() != [seed + 1.0] * 8:
                wrong.append(c.tolist())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


def test_under_a_mode_of_torch(kernel):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    a, b, c = tensors()
    with Mode():
        kernel(a, b, c)
        with pytest.raises(ArgumentLayoutError, match="negative"):
            kernel(torch._neg_view(a), b, c)
    assert torch.equal(c, a + b)
