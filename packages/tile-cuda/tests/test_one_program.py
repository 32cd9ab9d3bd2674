"""What a block does once and what each of its threads does: the same rule interpreted and on devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_cuda.language as T

N = 64


@pytest.mark.emulate
def test_a_block_that_is_one_program_has_its_effects_once(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(3, threads=N) as b:
            T.atomic_add(A[0], 1)
            B[b] = T.atomic_add(A[1], 10, return_prev=True)
            if A[3] == 0:
                T.atomic_max(A[2], b)

    a, b = agree(kernel, np.zeros(4, "int32"), np.full(3, -1, "int32"))
    assert a.tolist() == [3, 30, 2, 0]
    assert b.tolist() == [0, 10, 20]


@pytest.mark.emulate
def test_a_program_of_one_thread_runs_on_every_thread(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            own = T.alloc_var("int32", init=0)
            own = t * 3
            if own == 15:
                A[1] = 7
            for _ in range(t % 3):
                own = own + 100
            T.atomic_add(A[0], 1)
            B[t] = own

    a, b = agree(kernel, np.zeros(4, "int32"), np.full(N, -1, "int32"))
    assert a.tolist() == [N, 7, 0, 0]
    np.testing.assert_array_equal(b, np.arange(N) * 3 + np.arange(N) % 3 * 100)


@pytest.mark.emulate
def test_an_exchange_tells_threads_apart(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=N):
            total = T.warp_reduce_sum(2)
            T.atomic_add(A[0], total)

    (a,) = agree(kernel, np.zeros(2, "int32"))
    assert a.tolist() == [N * N, 0]


@pytest.mark.emulate
def test_tiles_beside_the_code_of_threads(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            tile = T.alloc_shared((N,), "float32")
            T.copy(A, tile)
            total = T.warp_reduce_sum(tile[N - 1 - t])
            T.sync_threads()
            tile[t] = total
            T.copy(tile, B)

    values = np.arange(N, dtype="float32")
    _, b = agree(kernel, values, np.zeros(N, "float32"))
    np.testing.assert_array_equal(b, np.repeat([values[32:].sum(), values[:32].sum()], 32))
