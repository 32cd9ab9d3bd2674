"""Exchanges of a SIMD-group and a threadgroup, emulated against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_metal.language as T
from tile_core.errors import UnprintableError

N = 64
INTS = np.random.default_rng(1).integers(-4, 4, N).astype("int32")


@T.prim_func
def everything(
    A: T.Tensor((N,), "int32"),
    B: T.Tensor((N, 14), "int32"),
    C: T.Tensor((N, 2), "float16"),
    D: T.Tensor((N, 2), "int64"),
    E: T.Tensor((N,), "bfloat16"),
    F: T.Tensor((N,), "uint64"),
):
    with T.Kernel(1, threads=N):
        t = T.get_thread_binding()
        B[t, 0] = T.shfl_sync(A[t], 5, width=8)
        B[t, 1] = T.shfl_xor(A[t], 3)
        B[t, 2] = T.shfl_up(A[t], 2, width=16)
        B[t, 3] = T.shfl_down(A[t], 3, width=4)
        B[t, 4] = T.syncthreads_count(A[t] > 0)
        B[t, 5] = T.cast(T.syncthreads_or(A[t] == 3), "int32")
        B[t, 6] = T.cast(T.syncthreads_and(A[t] < 9), "int32")
        B[t, 7] = T.cast(T.any_sync(A[t] > 2), "int32") + T.cast(T.all_sync(A[t] > -9), "int32") * 2
        B[t, 8] = T.popcount(A[t])
        B[t, 9] = T.clz(A[t])
        B[t, 10] = T.warp_reduce_sum(A[t]) + T.warp_reduce_max(A[t])
        B[t, 11] = T.warp_reduce_bitor(A[t]) - T.warp_reduce_min(A[t])
        T.sync_warp()
        B[t, 12] = T.cast(T.shfl_xor(A[t] > 0, 1), "int32")
        B[t, 13] = T.cast(T.shfl_xor(T.cast(A[t], "int8"), 1), "int32")
        C[t, 0] = T.shfl_sync(T.cast(A[t], "float16"), 1, width=2)
        C[t, 1] = T.warp_reduce_sum(T.cast(A[t], "float16"))
        D[t, 0] = T.shfl_down(T.cast(A[t], "int64") * 5000000000, 1)
        D[t, 1] = T.warp_reduce_max(T.cast(A[t], "int64") * 5000000000)
        E[t] = T.shfl_up(T.cast(A[t], "bfloat16"), 1)
        F[t] = T.ballot(A[t] > 0) ^ T.activemask()


@pytest.mark.emulate
def test_emulated_as_interpreted() -> None:
    results = []
    for target in ("interpret", "metal"):
        made = [
            np.full((N, 14), -1, "int32"),
            np.zeros((N, 2), "float16"),
            np.zeros((N, 2), "int64"),
            np.zeros(N, "uint16"),
            np.zeros(N, "uint64"),
        ]
        options: Any = {} if target == "interpret" else {"execution": "emulate"}
        tl.compile(everything, target=target, **options)(INTS, *made[:3], _bfloat16(made[3]), made[4])
        results.append(made)
    for one, other in zip(*results, strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, other)


def _bfloat16(bits: np.ndarray) -> Any:
    """The bits as a tensor of bfloat16, in the same memory."""
    import torch

    return torch.from_numpy(bits.view("int16")).view(torch.bfloat16)


@pytest.mark.emulate
def test_the_last_simd_group_may_be_short() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=40):
            t = T.get_thread_binding()
            B[t] = T.warp_reduce_sum(A[t])

    a, b = INTS[:40].copy(), np.full(40, -1, "int32")
    tl.compile(kernel, target="metal", execution="emulate")(a, b)
    assert (b[:32] == a[:32].sum()).all()
    assert (b[32:] == a[32:].sum()).all()


@pytest.mark.compile
def test_clang_reads_it(read: Callable[[str], None]) -> None:
    read(tl.compile(everything, target="metal").get_kernel_source())


def test_a_mask_of_some_lanes_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            A[0] = T.shfl_sync(A[1], 0, mask=0xFF)

    with pytest.raises(UnprintableError, match="of some lanes only"):
        tl.compile(kernel, target="metal", execution="emulate")
