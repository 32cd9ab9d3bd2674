"""Exchanges of a warp and of a SIMT function's threads, on the printed code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.errors.plugins import UnprintableError

N = 96
VALUES = np.random.default_rng(7).integers(-50, 50, N).astype("int32")


@T.prim_func
def exchanged(
    A: T.Tensor((N,), "int32"),
    B: T.Tensor((N,), "int32"),
    C: T.Tensor((N,), "uint32"),
    D: T.Tensor((4, N), "int32"),
):
    with T.Kernel(1, threads=N) as _:
        tx = T.get_thread_binding(0)
        B[tx] = T.warp_reduce_sum(A[tx]) + T.warp_reduce_max(A[tx]) + T.shfl_up(A[tx], 1)
        C[tx] = T.Cast("uint32", T.ballot_sync(A[tx] > 0))
        D[0, tx] = T.syncthreads_count(A[tx] > 0)
        D[1, tx] = T.Cast("int32", T.syncthreads_and(A[tx] > -100))
        D[2, tx] = T.Cast("int32", T.syncthreads_or(A[tx] > 100))
        D[3, tx] = T.Cast("int32", T.any_sync(A[tx] > 0))


@pytest.mark.emulate
def test_what_threads_do_together() -> None:
    kernel = tl.compile(exchanged, target="ascend", execution="emulate")
    b, c, d = np.zeros(N, "int32"), np.zeros(N, "uint32"), np.full((4, N), -1, "int32")
    kernel(VALUES, b, c, d)
    for start in range(0, N, 32):
        part = VALUES[start : start + 32]
        above = np.concatenate([part[:1], part[:-1]])
        assert (b[start : start + 32] == part.sum() + part.max() + above).all()
        votes = sum(1 << lane for lane, value in enumerate(part) if value > 0)
        assert (c[start : start + 32] == votes).all()
        assert (d[3, start : start + 32] == (part > 0).any()).all()
    assert (d[0] == (VALUES > 0).sum()).all()
    assert (d[1] == 1).all()
    assert (d[2] == 0).all()


@T.prim_func
def speaking(A: T.Tensor((N,), "int32"), F: T.Tensor((2,), "float16")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        T.print(F, "tile")
        T.device_assert(A[tx] < 4, "too large")


@pytest.mark.emulate
def test_printing_and_assertions(capfd: pytest.CaptureFixture[str]) -> None:
    a, kernel = np.zeros(N, "int32"), tl.compile(speaking, target="ascend", execution="emulate")
    kernel(a, np.ones(2, "float16"))
    assert capfd.readouterr().out.splitlines() == ["tile: F[0] = 1", "tile: F[1] = 1"]
    a[9] = 4
    with pytest.raises(DeviceAssertError, match="too large, in thread"):
        kernel(a, np.ones(2, "float16"))


def test_a_mask_of_some_lanes_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            A[0] = T.shfl_sync(A[1], 0, mask=0xFF)

    made: Any = kernel
    with pytest.raises(UnprintableError, match="of some lanes only"):
        tl.compile(made, target="ascend", execution="emulate")
