"""Matrix products of tiles: every transposition, odd extents, tails, accumulation."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("gemm")


def matmul(
    m,
    n,
    k,
    bm,
    bn,
    bk,
    dtype="float32",
    accum="float32",
    trans_a=False,
    trans_b=False,
    stages=0,
    relu=False,
    threads=128,
):
    """A tiled GEMM in the natural formulation; used by the programs below."""
    a_shape, b_shape = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    a_tile, b_tile = ((bk, bm) if trans_a else (bm, bk)), ((bn, bk) if trans_b else (bk, bn))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), accum)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(a_tile, dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_fragment((bm, bn), accum)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if trans_a:
                    T.copy(A[ko * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, ko * bk], a)
                if trans_b:
                    T.copy(B[bx * bn, ko * bk], b)
                else:
                    T.copy(B[ko * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
            if relu:
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def _check(run: Run, m: int, n: int, k: int, *blocks: int, **options: object) -> None:
    dtype, accum = str(options.get("dtype", "float32")), str(options.get("accum", "float32"))
    a = run.integers(k, m, dtype=dtype) if options.get("trans_a") else run.integers(m, k, dtype=dtype)
    b = run.integers(n, k, dtype=dtype) if options.get("trans_b") else run.integers(k, n, dtype=dtype)
    c = run.empty(m, n, dtype=accum)
    run(matmul(m, n, k, *blocks, **options), a, b, c)
    left = a.double().T if options.get("trans_a") else a.double()
    right = b.double().T if options.get("trans_b") else b.double()
    expected = left @ right
    run.equal(c, (expected.clamp(min=0) if options.get("relu") else expected).to(c.dtype))


@TABLE(needs=("gemm",))
def transpositions(run: Run) -> None:
    for trans_a in (False, True):
        for trans_b in (False, True):
            _check(run, 64, 48, 96, 32, 48, 32, trans_a=trans_a, trans_b=trans_b)


@TABLE(needs=("gemm",))
def ragged_edges(run: Run) -> None:
    _check(run, 61, 47, 53, 32, 32, 16)
    _check(run, 1, 1, 1, 16, 16, 16)
    _check(run, 130, 257, 33, 64, 64, 32, relu=True)


@TABLE(needs=("gemm",))
def tiles_of_odd_sizes(run: Run) -> None:
    _check(run, 33, 21, 17, 11, 7, 5)
    _check(run, 50, 100, 24, 25, 50, 8)


@TABLE(case="C6", needs=("gemm",))
def pipelined_with_uneven_steps(run: Run) -> None:
    for block_k in (48, 80):
        for stages in (0, 1, 2, 3):
            _check(run, 64, 64, 200, 32, 32, block_k, stages=stages)


@TABLE(case="G6", needs=("gemm",))
def nothing_to_sum_gives_zeros(run: Run) -> None:
    m, n = 40, 24
    a, b, c = run.empty(m, 0), run.empty(0, n), run.empty(m, n)
    run(matmul(m, n, 0, 32, 16, 16), a, b, c)
    run.equal(c, torch.zeros(m, n))


@TABLE(case="G6", needs=("gemm",))
def tiles_without_a_column_to_sum(run: Run) -> None:
    for clear in (True, False):

        @T.prim_func
        def kernel(C: T.Tensor((16, 16), T.float32)):
            with T.Kernel(1, threads=128):
                a, b = T.alloc_shared((16, 0), T.float32), T.alloc_shared((0, 16), T.float32)
                c = T.alloc_fragment((16, 16), T.float32)
                if not clear:
                    T.fill(c, 3)
                T.gemm(a, b, c, clear_accum=clear)
                T.copy(c, C)

        c = run.empty(16, 16)
        run(kernel, c)
        run.equal(c, torch.full((16, 16), 0.0 if clear else 3.0))


@TABLE(needs=("gemm", "int8"))
def sums_of_integers_wrap(run: Run) -> None:
    m, n, k = 64, 16, 64
    for sign in (1, -1):

        @T.prim_func
        def kernel(A: T.Tensor((m, k), T.int8), B: T.Tensor((n, k), T.int8), C: T.Tensor((m, n), T.int32)):
            with T.Kernel(1, threads=128):
                a, b = T.alloc_shared((m, k), T.int8), T.alloc_shared((n, k), T.int8)
                c = T.alloc_fragment((m, n), T.int32)
                T.copy(A, a)
                T.copy(B, b)
                T.copy(C, c)
                T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C)

        a = run.integers(m, k, low=1, high=127, dtype="int8") * sign
        b = run.integers(n, k, low=1, high=127, dtype="int8")
        edge = 2**31 - 1 if sign > 0 else -(2**31)
        c = torch.full((m, n), edge, dtype=torch.int32)
        run(kernel, a, b, c)
        run.equal(c, ((a.double() @ b.double().T).long() + edge).to(torch.int32))


@TABLE(case="G1", needs=("gemm", "float16"))
def short_tiles_along_k(run: Run) -> None:
    for k in (8, 24, 40):
        _check(run, 32, 32, k, 32, 32, k, dtype="float16")


@TABLE(case="G2", needs=("gemm", "float16"))
def widths_that_are_no_powers_of_two(run: Run) -> None:
    for n in (24, 40, 96, 112, 160):
        _check(run, 64, n, 64, 64, n, 32, dtype="float16")


@TABLE(case="L15", needs=("gemm", "float16"))
def odd_numbers_of_warps(run: Run) -> None:
    for threads in (32, 96, 160, 224):
        _check(run, 64, 104, 48, 64, 104, 16, dtype="float16", threads=threads)


@TABLE(case="G9", needs=("gemm", "bfloat16"))
def a_scalar_in_shared_beside_pipelined_tiles(run: Run) -> None:
    m, n, k, block = 64, 48, 96, 32

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), T.bfloat16),
        B: T.Tensor((k, n), T.bfloat16),
        S: T.Tensor((1,), T.float32),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(1, threads=128):
            scale = T.alloc_shared((1,), T.float32)
            a, b = T.alloc_shared((m, block), T.bfloat16), T.alloc_shared((block, n), T.bfloat16)
            offset = T.alloc_shared((1,), T.float32)
            c = T.alloc_fragment((m, n), T.float32)
            scale[0] = S[0]
            offset[0] = S[0] + 1
            T.clear(c)
            for ko in T.Pipelined(k // block, num_stages=2):
                T.copy(A[0, ko * block], a)
                T.copy(B[ko * block, 0], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(m, n):
                C[i, j] = c[i, j] * scale[0] + offset[0]

    a, b = run.integers(m, k, dtype="bfloat16"), run.integers(k, n, dtype="bfloat16")
    c = run.empty(m, n)
    run(kernel, a, b, run.tensor([2.0]), c)
    run.equal(c, (a.double() @ b.double() * 2 + 3).float())


@TABLE(needs=("gemm", "bfloat16"))
def bfloat16_inputs(run: Run) -> None:
    _check(run, 96, 80, 72, 32, 40, 24, dtype="bfloat16")
    _check(run, 65, 33, 71, 64, 32, 32, dtype="bfloat16", trans_b=True)


@TABLE(needs=("gemm", "int8"))
def int8_inputs(run: Run) -> None:
    _check(run, 64, 48, 100, 32, 16, 32, dtype="int8", accum="int32")


@TABLE(needs=("gemm", "float64"))
def float64_inputs(run: Run) -> None:
    _check(run, 20, 30, 40, 16, 16, 16, dtype="float64", accum="float64")


@TABLE(case="C20", needs=("gemm",))
def a_slice_of_a_shared_tile(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 48), T.float32), B: T.Tensor((32, 16), T.float32), C: T.Tensor((64, 16), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 48), T.float32)
            b = T.alloc_shared((32, 16), T.float32)
            c = T.alloc_fragment((64, 16), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a[:, :32], b, c, clear_accum=True)
            T.copy(c, C)

    a, b, c = run.integers(64, 48, dtype="float32"), run.integers(32, 16, dtype="float32"), run.empty(64, 16)
    run(kernel, a, b, c)
    run.equal(c, a[:, :32] @ b)


@TABLE(needs=("gemm",))
def mismatched_extents_are_refused(run: Run) -> None:
    with run.raises(naming=["K", "32", "16"]):

        @T.prim_func
        def kernel(C: T.Tensor((16, 16), T.float32)):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((16, 32), T.float32)
                b = T.alloc_shared((16, 16), T.float32)
                c = T.alloc_fragment((16, 16), T.float32)
                T.gemm(a, b, c)
                T.copy(c, C)


@TABLE(case="G4", needs=("gemm", "dynamic"))
def a_symbolic_tile_is_refused(run: Run) -> None:
    n = T.dynamic("n")
    with run.raises(naming=["n"]):

        @T.prim_func
        def kernel(A: T.Tensor((16, n), T.float32), C: T.Tensor((16, 16), T.float32)):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((16, n), T.float32)
                b = T.alloc_shared((n, 16), T.float32)
                c = T.alloc_fragment((16, 16), T.float32)
                T.gemm(a, b, c)
                T.copy(c, C)

        run.compile(kernel)
