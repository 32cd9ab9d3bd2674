"""Groups of whole warps do what a block does, and the copy engine fills tiles for products of any group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_cuda.language as T

pytestmark = pytest.mark.emulate


def numbers(*shape: int, dtype: str = "float16") -> np.ndarray:
    """Small whole numbers, whose products and sums are exact."""
    return np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(dtype)


def poisoned(*shape: int, dtype: str = "float32") -> np.ndarray:
    """An output of NaN."""
    return np.full(shape, np.nan, dtype)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B in float32."""
    return a.astype("float32") @ b.astype("float32")


def test_a_group_has_a_pipeline_of_its_own(agree: Any) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=256) as _bx:
            left, right = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            with T.ws(1):
                total = T.alloc_fragment((128, 64), "float32")
                T.clear(total)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0:128, k * 64 : k * 64 + 64], left)
                    T.copy(B[k * 64 : k * 64 + 64, 0:64], right)
                    T.gemm(left, right, total)
                T.copy(total, C)

    a, b = numbers(128, 256), numbers(256, 64)
    *_, c = agree(kernel, a, b, poisoned(128, 64))
    assert (c == product(a, b)).all()


def test_two_groups_multiply_what_one_thread_loads(agree: Any) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=384) as _bx:
            tx = T.get_thread_binding()
            left, right = T.alloc_shared((2, 2, 64, 64), "float16"), T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([1, 1])
            upper, lower = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            if tx < 128:
                T.clear(upper)
                for k in T.serial(2):
                    T.barrier_wait(full[k], 0)
                    T.gemm(left[k, 0, :, :], right[k, :, :], upper)
                T.copy(upper, C[0:64, 0:64])
            elif tx < 256:
                T.clear(lower)
                for k in T.serial(2):
                    T.barrier_wait(full[k], 0)
                    T.gemm(left[k, 1, :, :], right[k, :, :], lower)
                T.copy(lower, C[64:128, 0:64])
            elif tx == 256:
                for k in T.serial(2):
                    T.tma_copy(A[0:64, k * 64 : k * 64 + 64], left[k, 0, :, :], barrier=full[k])
                    T.tma_copy(A[64:128, k * 64 : k * 64 + 64], left[k, 1, :, :], barrier=full[k])
                    T.tma_copy(B[k * 64 : k * 64 + 64, 0:64], right[k, :, :], barrier=full[k])
                    T.mbarrier_arrive(full[k])

    a, b = numbers(128, 128), numbers(128, 64)
    *_, c = agree(kernel, a, b, poisoned(128, 64))
    assert (c == product(a, b)).all()


def test_a_tile_of_several_strips_is_multiplied_and_copied(agree: Any) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((64, 128), "float16"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            left, right = T.alloc_shared((64, 128), "float16"), T.alloc_shared((128, 64), "float16")
            full = T.alloc_barrier(128)
            total = T.alloc_fragment((64, 64), "float32")
            T.tma_copy(A, left, barrier=full)
            T.tma_copy(B, right, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.clear(total)
            T.gemm(left, right, total)
            T.copy(total, C)
            T.copy(left, D)

    a, b = numbers(64, 128), numbers(128, 64)
    *_, c, d = agree(kernel, a, b, poisoned(64, 64), poisoned(64, 128, dtype="float16"))
    assert (c == product(a, b)).all()
    assert (d == a).all()


def test_a_barrier_inside_of_a_group_is_the_groups(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(2, threads=256) as bx:
            row = T.alloc_shared((64,), "float32")
            mirrored = T.alloc_fragment((64,), "float32")
            with T.ws(1):
                for r in T.serial(4):
                    T.copy(A[bx * 4 + r, 0:64], row)
                    T.sync_threads()
                    for i in T.Parallel(64):
                        mirrored[i] = row[63 - i]
                    T.copy(mirrored, B[bx * 4 + r, 0:64])

    a = numbers(8, 64, dtype="float32")
    *_, b = agree(kernel, a, poisoned(8, 64))
    assert (b == a[:, ::-1]).all()
