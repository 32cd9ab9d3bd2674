"""Atomic updates by threads of one block and of many."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("atomics")


@TABLE(case="A1", needs=("atomics",))
def add_max_and_min_of_one_element(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((3,), T.int32)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                T.atomic_add(Out[0], 1)
                T.atomic_max(Out[1], i)
                T.atomic_min(Out[2], 500 - i)

    out = run.tensor([0, -5, 1000], "int32")
    run(kernel, out)
    run.equal(out, [128, 127, 373])


@TABLE(case="A1", needs=("atomics",))
def a_tile_is_added_by_every_block(run: Run) -> None:
    blocks = 7

    @T.prim_func
    def kernel(A: T.Tensor((30, 17), T.float32), Out: T.Tensor((30, 17), T.float32)):
        with T.Kernel(blocks, threads=64):
            f = T.alloc_fragment((30, 17), T.float32)
            T.copy(A, f)
            T.atomic_add(Out, f)

    a, out = run.integers(30, 17, dtype="float32"), torch.zeros(30, 17)
    run(kernel, a, out)
    run.equal(out, a * blocks)


@TABLE(case="A4", needs=("atomics", "float64"))
def additions_of_several_dtypes(run: Run) -> None:
    for dtype in ("int32", "float32", "float64"):

        @T.prim_func
        def kernel(A: T.Tensor((300,), dtype), Out: T.Tensor((4,), dtype)):
            with T.Kernel(3, threads=32) as bx:
                for i in T.Parallel(100):
                    T.atomic_add(Out[(bx * 100 + i) % 4], A[bx * 100 + i])

        a = run.integers(300, dtype=dtype)
        out = torch.zeros(4, dtype=a.dtype)
        run(kernel, a, out)
        run.equal(out, a.reshape(-1, 4).sum(0))


@TABLE(needs=("atomics", "int64"))
def sums_of_integers_wrap(run: Run) -> None:
    """In shared and in global memory, of elements and of a tile."""
    n = 96
    for dtype in ("int32", "int64"):

        @T.prim_func
        def kernel(A: T.Tensor((n,), dtype), Out: T.Tensor((2,), dtype), Tile: T.Tensor((n,), dtype)):
            with T.Kernel(1, threads=n):
                own = T.alloc_shared((1,), dtype)
                tile = T.alloc_fragment((n,), dtype)
                T.clear(own)
                T.copy(A, tile)
                T.atomic_add(Tile, tile)
                for i in T.Parallel(n):
                    T.atomic_add(own[0], A[i])
                    T.atomic_add(Out[0], A[i])
                Out[1] = own[0]

        compiled = run.compile(kernel)
        limits = torch.iinfo(getattr(torch, dtype))
        for edge in (limits.max, limits.min):
            a = run.integers(n, low=0, high=9, dtype=dtype) ^ edge
            out, tile = torch.zeros(2, dtype=a.dtype), a.clone()
            compiled(a, out, tile)
            run.equal(out, a.sum(dtype=a.dtype).expand(2))
            run.equal(tile, a + a)


@TABLE(case="V14", needs=("atomics", "float16"))
def half_precision_additions_stay_in_bounds(run: Run) -> None:
    n = 1001

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float16), Out: T.Tensor((n,), T.float16)):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as bx:
            for i in T.Parallel(256):
                T.atomic_add(Out[bx * 256 + i], A[bx * 256 + i])

    a = run.integers(n, dtype="float16")
    whole = torch.full((n + 64,), 7.0, dtype=torch.float16)
    run(kernel, a, whole[:n])
    run.equal(whole[:n], a + 7)
    run.equal(whole[n:], torch.full((64,), 7.0, dtype=torch.float16))


@TABLE(needs=("atomics",))
def the_previous_value_is_returned(run: Run) -> None:
    n = 50

    @T.prim_func
    def kernel(Counter: T.Tensor((1,), T.int32), Ticket: T.Tensor((n,), T.int32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                Ticket[i] = T.atomic_add(Counter[0], 1, return_prev=True)

    counter, ticket = run.tensor([100], "int32"), run.empty(n, dtype="int32")
    run(kernel, counter, ticket)
    run.equal(counter, [100 + n])
    run.equal(ticket.sort().values, torch.arange(100, 100 + n))


@TABLE(needs=("atomics", "gemm"))
def split_k_accumulates_in_global_memory(run: Run) -> None:
    m, n, k, parts = 32, 24, 96, 3

    @T.prim_func
    def kernel(A: T.Tensor((m, k), T.float32), B: T.Tensor((k, n), T.float32), C: T.Tensor((m, n), T.float32)):
        with T.Kernel(parts, threads=128) as part:
            a = T.alloc_shared((m, k // parts), T.float32)
            b = T.alloc_shared((k // parts, n), T.float32)
            c = T.alloc_fragment((m, n), T.float32)
            T.copy(A[0, part * (k // parts)], a)
            T.copy(B[part * (k // parts), 0], b)
            T.gemm(a, b, c, clear_accum=True)
            T.atomic_add(C, c)

    a, b, c = run.integers(m, k, dtype="float32"), run.integers(k, n, dtype="float32"), torch.zeros(m, n)
    run(kernel, a, b, c)
    run.equal(c, a @ b)


@TABLE(case="A3", needs=("atomics", "float16"))
def pairs_and_quadruples_are_added(run: Run) -> None:
    """At elements and at slices; the destination of a pair need not be aligned."""
    for dtype in ("int32", "float16", "float32"):

        @T.prim_func
        def kernel(A: T.Tensor((3, 8), dtype), Two: T.Tensor((3, 9), dtype), Four: T.Tensor((12,), dtype)):
            with T.Kernel(3, threads=32) as bx:
                T.atomic_addx2(Two[bx, 1], A[bx, 0])
                T.atomic_addx2(Two[bx, 6:8], A[bx, 2:4])
                T.atomic_addx4(Four[bx * 4], A[bx, 4])

        a = run.integers(3, 8, dtype=dtype)
        two, four = torch.zeros(3, 9, dtype=a.dtype), torch.ones(12, dtype=a.dtype)
        expected = torch.zeros_like(two)
        expected[:, 1:3] += a[:, 0:2]
        expected[:, 6:8] += a[:, 2:4]
        run(kernel, a, two, four)
        run.equal(two, expected)
        run.equal(four, a[:, 4:].reshape(-1) + 1)


@TABLE(case="A3", needs=("atomics",))
def a_pair_that_is_none_is_refused(run: Run) -> None:
    with run.raises(naming=["atomic_addx2", "A"]):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                T.atomic_addx2(B[0], A[0:3])


@TABLE(case="A6", needs=("atomics",))
def a_source_of_higher_rank_is_refused(run: Run) -> None:
    """Which axis would be summed over is not said; the same with an axis of 1 is a sum over blocks."""
    with run.raises(naming=["Out"]):

        @T.prim_func
        def ambiguous(A: T.Tensor((4, 16), T.float32), Out: T.Tensor((16,), T.float32)):
            with T.Kernel(1, threads=32):
                f = T.alloc_fragment((4, 16), T.float32)
                T.copy(A, f)
                T.atomic_add(Out, f)

    @T.prim_func
    def kernel(A: T.Tensor((4, 16), T.float32), Out: T.Tensor((16,), T.float32)):
        with T.Kernel(4, threads=32) as bx:
            f = T.alloc_fragment((1, 16), T.float32)
            T.copy(A[bx, 0], f)
            T.atomic_add(Out, f)

    a, out = run.integers(4, 16, dtype="float32"), torch.zeros(16)
    run(kernel, a, out)
    run.equal(out, a.sum(0))


@TABLE(needs=("atomics",))
def updates_by_constants_of_an_unrolled_loop(run: Run) -> None:
    @T.prim_func
    def kernel(Most: T.Tensor((1,), T.int32), Least: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.unroll(5):
                T.atomic_max(Most[0], i)
                T.atomic_min(Least[0], i - 2)

    most, least = run.tensor([-5], "int32"), run.tensor([5], "int32")
    run(kernel, most, least)
    run.equal(most, [4])
    run.equal(least, [-2])
