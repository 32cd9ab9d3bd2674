"""Fragments and how parallel loops share them, at thread counts that fit and that do not."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("layout")
THREADS = (64, 128, 256, 96)


@TABLE(case="L1")
def partial_overwrite(run: Run) -> None:
    for threads in THREADS:

        @T.prim_func
        def kernel(C: T.Tensor((256,), T.float32)):
            with T.Kernel(1, threads=threads):
                f = T.alloc_fragment((256,), T.float32)
                for i in T.Parallel(256):
                    f[i] = 1
                for i in T.Parallel(100):
                    f[i] = 5
                for i in T.Parallel(256):
                    C[i] = f[i] + 1

        c = run.empty(256)
        run(kernel, c)
        run.equal(c, torch.tensor([6.0] * 100 + [2.0] * 156))


@TABLE(case="L4")
def broadcast_rows_of_a_fragment(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 14), T.int32), B: T.Tensor((16, 448), T.int32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((16, 14), T.int32)
            T.copy(A, f)
            for i, j in T.Parallel(16, 448):
                B[i, j] += f[i, j // 32]

    a, b = run.integers(16, 14), run.integers(16, 448)
    expected = b + a.repeat_interleave(32, dim=1)
    run(kernel, a, b)
    run.equal(b, expected)


@TABLE(case="L8", needs=("bfloat16",))
def small_tile_many_threads(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.bfloat16), D: T.Tensor((4, 64), T.float32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((8,), T.bfloat16)
            f = T.alloc_fragment((8,), T.float32)
            T.copy(A, s)
            T.copy(s, f)
            for k in T.serial(64):
                for i in T.Parallel(4):
                    D[i, k] = s[i]

    a, d = run.randn(8, dtype="bfloat16"), run.empty(4, 64)
    run(kernel, a, d)
    run.equal(d, a[:4].float()[:, None].expand(4, 64))


@TABLE(case="L9", needs=("reduce",))
def reduce_middle_axis_then_divide(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 4, 4), T.float32), B: T.Tensor((32, 4, 4), T.float32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((32, 4, 4), T.float32)
            total = T.alloc_fragment((32, 4), T.float32)
            T.copy(A, f)
            T.reduce_sum(f, total, dim=1)
            for i, j, k in T.Parallel(32, 4, 4):
                B[i, j, k] = f[i, j, k] / total[i, k]

    a, b = run.randn(32, 4, 4).abs() + 0.5, run.empty(32, 4, 4)
    run(kernel, a, b)
    run.close(b, a / a.sum(dim=1, keepdim=True))


@TABLE(case="V1")
def variable_set_in_a_parallel_loop(run: Run) -> None:
    @T.prim_func
    def kernel(D: T.Tensor((2048,), T.int32)):
        with T.Kernel(1, threads=64):
            index = T.alloc_var(T.int32)
            for i in T.Parallel(2048):
                index = i
                D[i] = index

    d = run.empty(2048, dtype="int32")
    run(kernel, d)
    run.equal(d, torch.arange(2048))


@TABLE()
def three_axes_with_odd_extents(run: Run) -> None:
    for extents in ((1, 1, 1), (3, 5, 7), (2, 31, 17)):
        m, n, k = extents

        @T.prim_func
        def kernel(A: T.Tensor((m, n, k), T.float32), B: T.Tensor((k, n, m), T.float32)):
            with T.Kernel(1, threads=96):
                for x, y, z in T.Parallel(m, n, k):
                    B[z, y, x] = A[x, y, z] * 2

        a, b = run.randn(m, n, k), run.empty(k, n, m)
        run(kernel, a, b)
        run.equal(b, a.permute(2, 1, 0) * 2)
