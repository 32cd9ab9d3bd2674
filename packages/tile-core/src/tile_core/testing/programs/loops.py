"""Loops that move tiles: vectorised, unrolled, pipelined, empty."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("memory")


@TABLE(case="V10")
def vectorised_and_unrolled_ranges(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32), C: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=1):
            for i in T.vectorized(4, 8):
                B[i] = A[i]
            for i in T.unroll(0, 8, 2):
                C[i] = 1.0

    a, b, c = run.randn(8), torch.zeros(8), torch.zeros(8)
    run(kernel, a, b, c)
    run.equal(b, torch.cat([torch.zeros(4), a[4:]]))
    run.equal(c, [1.0, 0.0] * 4)


@TABLE(case="V10")
def unrolled_loops_of_every_kind(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), T.int32), n: T.int32, B: T.Tensor((4, 40), T.int32)):
        with T.Kernel(1, threads=32):
            last = T.alloc_var(T.int32, init=0)
            for i in T.unroll(39, -1, -1, explicit=True):
                doubled = A[i] * 2
                B[0, i] = doubled + last
                last = A[i]
            for i in T.unroll(3, n):
                B[1, i] = A[i] + i
            for i in T.unroll(0, n, unroll_factor=4):
                for j in T.unroll(2, explicit=True):
                    if j < 1:
                        B[2, i] = A[i] - n
                    else:
                        B[3, i] = A[i] - j
            for i in T.unroll(5, 5, explicit=True):
                B[1, i] = 77

    a = run.integers(40)
    compiled = run.compile(kernel)
    for n in (0, 1, 5, 40):
        b = run.integers(4, 40, low=0, high=1)
        compiled(a, n, b)
        expected = torch.zeros_like(b)
        expected[0] = a * 2 + torch.cat([a[1:], a.new_zeros(1)])
        expected[1, 3:n] = a[3:n] + torch.arange(3, 40, dtype=torch.int32, device=a.device)[: max(n - 3, 0)]
        expected[2, :n], expected[3, :n] = a[:n] - n, a[:n] - 1
        run.equal(b, expected)


@TABLE(case="S8", needs=("gemm",))
def two_pipelined_loops_share_their_tiles(run: Run) -> None:
    for first, second in ((2, 4), (3, 1)):

        @T.prim_func
        def kernel(
            A: T.Tensor((32, 64), T.float32), B: T.Tensor((64, 32), T.float32), C: T.Tensor((32, 32), T.float32)
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((32, 16), T.float32)
                b = T.alloc_shared((16, 32), T.float32)
                c = T.alloc_fragment((32, 32), T.float32)
                T.clear(c)
                for k in T.Pipelined(2, num_stages=first):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, c)
                for k in T.Pipelined(2, num_stages=second):
                    T.copy(A[0, 32 + k * 16], a)
                    T.copy(B[32 + k * 16, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        a, b = run.integers(32, 64, dtype="float32"), run.integers(64, 32, dtype="float32")
        c = run.empty(32, 32)
        run(kernel, a, b, c)
        run.equal(c, a @ b)


@TABLE(case="S9")
def a_pipelined_loop_with_a_loaded_condition(run: Run) -> None:
    for stages in (0, 2):

        @T.prim_func
        def kernel(Flag: T.Tensor((6,), T.int32), A: T.Tensor((6, 32), T.float32), Out: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((32,), T.float32)
                total = T.alloc_fragment((32,), T.float32)
                T.clear(total)
                for k in T.Pipelined(6, num_stages=stages):
                    if Flag[k] != 0:
                        T.copy(A[k, :], s)
                        for i in T.Parallel(32):
                            total[i] += s[i]
                T.copy(total, Out)

        flag, a, out = run.integers(6, low=0, high=2), run.integers(6, 32, dtype="float32"), run.empty(32)
        run(kernel, flag, a, out)
        run.equal(out, (a * flag[:, None]).sum(0))


@TABLE(case="S10")
def a_pipelined_loop_that_gathers(run: Run) -> None:
    for stages in (0, 1, 3):

        @T.prim_func
        def kernel(Ids: T.Tensor((5,), T.int32), KV: T.Tensor((9, 48), T.float32), Out: T.Tensor((5, 48), T.float32)):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((48,), T.float32)
                for i in T.Pipelined(5, num_stages=stages):
                    T.copy(KV[Ids[i], 0:48], s)
                    T.copy(s, Out[i, 0:48])

        ids, kv, out = run.tensor([3, 0, 8, 3, 7], "int32"), run.randn(9, 48), run.empty(5, 48)
        run(kernel, ids, kv, out)
        run.equal(out, kv[ids.long()])


@TABLE(case="S12", needs=("gemm",))
def one_operand_copied_the_other_computed(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), T.float32), B: T.Tensor((64, 32), T.float32), C: T.Tensor((32, 32), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((32, 16), T.float32)
            b = T.alloc_shared((16, 32), T.float32)
            c = T.alloc_fragment((32, 32), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=1):
                T.copy(A[0, k * 16], a)
                for i, j in T.Parallel(16, 32):
                    b[i, j] = B[k * 16 + i, j] * 2.0
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b, c = run.integers(32, 64, dtype="float32"), run.integers(64, 32, dtype="float32"), run.empty(32, 32)
    run(kernel, a, b, c)
    run.equal(c, a @ (b * 2))


@TABLE(case="S15", needs=("gemm",))
def the_operand_that_threads_fill_is_read_first(run: Run) -> None:
    for stages in (0, 1, 2, 3):

        @T.prim_func
        def kernel(
            A: T.Tensor((32, 80), T.float32), B: T.Tensor((80, 32), T.float32), C: T.Tensor((32, 32), T.float32)
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((32, 16), T.float32)
                b = T.alloc_shared((16, 32), T.float32)
                row = T.alloc_fragment((32,), T.float32)
                c = T.alloc_fragment((32, 32), T.float32)
                T.clear(c)
                for k in T.Pipelined(5, num_stages=stages):
                    for i, j in T.Parallel(32, 16):
                        a[i, j] = A[i, k * 16 + j] - 1.0
                    T.copy(B[k * 16, 0], b)
                    T.reduce_sum(a, row, dim=1)
                    T.gemm(a, b, c)
                    for i, j in T.Parallel(32, 32):
                        c[i, j] += row[i]
                T.copy(c, C)

        a, b, c = run.integers(32, 80, dtype="float32"), run.integers(80, 32, dtype="float32"), run.empty(32, 32)
        run(kernel, a, b, c)
        run.equal(c, (a - 1) @ b + (a - 1).sum(1, keepdim=True))


@TABLE(case="S13", needs=("gemm",))
def pipelined_loops_of_one_and_of_ragged_steps(run: Run) -> None:
    for length in (16, 250):

        @T.prim_func
        def kernel(
            A: T.Tensor((32, length), T.float32), B: T.Tensor((length, 16), T.float32), C: T.Tensor((32, 16), T.float32)
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((32, 16), T.float32)
                b = T.alloc_shared((16, 16), T.float32)
                c = T.alloc_fragment((32, 16), T.float32)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(length, 16), num_stages=3):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        a, b = run.integers(32, length, dtype="float32"), run.integers(length, 16, dtype="float32")
        c = run.empty(32, 16)
        run(kernel, a, b, c)
        run.equal(c, a @ b)


@TABLE()
def loops_without_iterations_do_nothing(run: Run) -> None:
    for extents in ((0,), (3, 0), (0, 5), (4, 0, 2)):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                for _indices in T.Parallel(*extents):
                    B[0] = 1.0
                for i in T.Parallel(8):
                    B[i] = A[i]

        a, b = run.randn(8), run.empty(8)
        run(kernel, a, b)
        run.equal(b, a)
