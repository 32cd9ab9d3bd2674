"""The kernels everybody writes first."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("basic")


@TABLE()
def vector_add_at_any_length(run: Run) -> None:
    for n in (1, 2, 31, 256, 1000, 4099):

        @T.prim_func
        def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((n,), T.float32)):
            with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
                for i in T.Parallel(256):
                    C[bx * 256 + i] = A[bx * 256 + i] + B[bx * 256 + i]

        a, b = run.randn(n), run.randn(n)
        c, behind = run.guarded(n)
        run(kernel, a, b, c)
        run.equal(c, a + b)
        run.equal(behind, torch.full_like(behind, float("nan")))


@TABLE()
def the_grid_is_x_fastest(run: Run) -> None:
    gx, gy, gz = 3, 5, 2

    @T.prim_func
    def kernel(Out: T.Tensor((gx, gy, gz, 3), T.int32)):
        with T.Kernel(gx, gy, gz, threads=32) as (bx, by, bz):
            Out[bx, by, bz, 0] = bx
            Out[bx, by, bz, 1] = by
            Out[bx, by, bz, 2] = bz

    out = run.empty(gx, gy, gz, 3, dtype="int32")
    run(kernel, out)
    axes = torch.meshgrid(torch.arange(gx), torch.arange(gy), torch.arange(gz), indexing="ij")
    run.equal(out, torch.stack(axes, dim=-1).int())


@TABLE()
def a_single_extent_binds_a_variable_or_a_tuple(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((4,), T.int32)):
        with T.Kernel(4, threads=32) as (bx,):
            Out[bx] = bx + 10

    out = run.empty(4, dtype="int32")
    run(kernel, out)
    run.equal(out, [10, 11, 12, 13])


@TABLE(needs=("reduce",))
def row_softmax(run: Run) -> None:
    for m, n in ((1, 1), (7, 33), (5, 1003)):

        @T.prim_func
        def kernel(X: T.Tensor((m, n), T.float32), Y: T.Tensor((m, n), T.float32)):
            with T.Kernel(m, threads=128) as row:
                x = T.alloc_fragment((1, n), T.float32)
                largest = T.alloc_fragment((1,), T.float32)
                total = T.alloc_fragment((1,), T.float32)
                T.copy(X[row, 0], x)
                T.reduce_max(x, largest, dim=1)
                for i, j in T.Parallel(1, n):
                    x[i, j] = T.exp(x[i, j] - largest[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(1, n):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[row, 0])

        x, y = run.randn(m, n) * 10, run.empty(m, n)
        run(kernel, x, y)
        run.close(y, torch.softmax(x, dim=1))


@TABLE()
def two_kernels_in_one_function_run_in_order(run: Run) -> None:
    n = 300

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, 64), threads=32) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * 2.0
        with T.Kernel(T.ceildiv(n, 100), threads=32) as bx:
            for i in T.Parallel(100):
                C[bx * 100 + i] = B[n - 1 - (bx * 100 + i)]

    a, b, c = run.randn(n), run.empty(n), run.empty(n)
    run(kernel, a, b, c)
    run.equal(b, a * 2)
    run.equal(c, (a * 2).flip(0))


@TABLE(needs=("atomics",))
def atomic_sum_over_blocks(run: Run) -> None:
    n = 1001

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.int32), Out: T.Tensor((1,), T.int32)):
        with T.Kernel(T.ceildiv(n, 64), threads=32) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    T.atomic_add(Out[0], A[bx * 64 + i])

    a, out = run.integers(n), run.tensor([0], "int32")
    run(kernel, a, out)
    run.equal(out, a.sum().reshape(1))


@TABLE(case="S1")
def a_pipelined_loop_keeps_its_meaning(run: Run) -> None:
    steps, block = 5, 16
    for num_stages in (0, 1, 2, 3):

        @T.prim_func
        def kernel(A: T.Tensor((steps, block), T.float32), Out: T.Tensor((steps, block), T.float32)):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((block,), T.float32)
                T.copy(A[0, 0], s)
                for k in T.Pipelined(steps, num_stages=num_stages):
                    T.copy(s, Out[k, 0])
                    if k + 1 < steps:
                        T.copy(A[k + 1, 0], s)

        a, out = run.randn(steps, block), run.empty(steps, block)
        run(kernel, a, out)
        run.equal(out, a)
