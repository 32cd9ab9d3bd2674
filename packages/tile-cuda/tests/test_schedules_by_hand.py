"""Schedules by hand (`order=`, `stage=`) do not change what a loop computes, whatever takes an entry of the lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_cuda.language as T


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("order", "stage"),
    [([0, 1, 2, 3], [0, 0, 1, 1]), ([0, 1, 2, 3, 4], [0, 0, 0, 1, 1]), ([0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 1, 1])],
    ids=["without names", "the one that reads", "with all names"],
)
def test_names_in_a_loop_that_is_scheduled_by_hand(agree: Any, order: list[int], stage: list[int]) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float32"), B: T.Tensor((64, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 16), "float32"), T.alloc_shared((16, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, order=order, stage=stage):
                at = k * 16
                T.copy(A[0, at], a)
                T.copy(B[at, 0], b)
                first = a[0, 0]
                T.gemm(a, b, c)
                for i, j in T.Parallel(32, 32):
                    c[i, j] += first
            T.copy(c, C)

    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 4, shape).astype("float32") for shape in ((32, 64), (64, 32)))
    *_, c = agree(kernel, a, b, np.full((32, 32), np.nan, "float32"))
    np.testing.assert_array_equal(c, a @ b + a[0, ::16].sum())
