"""Products of tiles of four-bit values: along K and across it, of both signs, from fragments, and beside floats."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.programs.narrow import DTYPES, packed, values
from tile_core.testing.run import Run

TABLE = ProgramTable("gemm")


@TABLE(needs=("narrow", "gemm"))
def packed_tiles(run: Run) -> None:
    for dtype, (m, n, k), (bm, bn, bk), stages in (
        ("int4", (64, 48, 192), (32, 16, 64), 0),
        ("uint4", (45, 38, 150), (32, 16, 64), 2),
        ("int4", (32, 32, 64), (32, 32, 32), 3),
        ("uint4", (22, 14, 20), (11, 7, 10), 0),
    ):

        @T.prim_func
        def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), T.int32)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
                a, b = T.alloc_shared((bm, bk), dtype), T.alloc_shared((bn, bk), dtype)
                c = T.alloc_fragment((bm, bn), T.int32)
                T.clear(c)
                for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                    T.copy(A[by * bm, ko * bk], a)
                    T.copy(B[bx * bn, ko * bk], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * bm, bx * bn])

        a, b, c = packed(run, m, k), packed(run, n, k), run.empty(m, n, dtype="int32")
        run(kernel, a, b, c)
        run.equal(c, (values(a, dtype) @ values(b, dtype).T).to(torch.int32))


@TABLE(needs=("narrow", "gemm"))
def packed_tiles_stored_either_way(run: Run) -> None:
    m, n, k = 64, 32, 96
    for dtype, trans_a, trans_b in (
        ("int4", False, False),
        ("uint4", True, True),
        ("int4", True, False),
        ("float4_e2m1fn", False, True),
    ):
        total = "float32" if "float" in dtype else "int32"
        left, right = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))

        @T.prim_func
        def kernel(A: T.Tensor(left, dtype), B: T.Tensor(right, dtype), C: T.Tensor((m, n), total)):
            with T.Kernel(1, threads=128):
                a, b = T.alloc_shared(left, dtype), T.alloc_shared(right, dtype)
                c = T.alloc_fragment((m, n), total)
                T.copy(A, a)
                T.copy(B, b)
                T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b, clear_accum=True)
                T.copy(c, C)

        a, b, c = packed(run, *left), packed(run, *right), run.empty(m, n, dtype=total)
        run(kernel, a, b, c)
        x, y = values(a, dtype), values(b, dtype)
        run.equal(c, ((x.T if trans_a else x) @ (y.T if trans_b else y)).to(c.dtype))


@TABLE(needs=("narrow", "gemm"))
def packed_fragments_and_both_signs(run: Run) -> None:
    m, n, k = 64, 32, 128

    @T.prim_func
    def kernel(A: T.Tensor((m, k), T.int4), B: T.Tensor((n, k), "uint4"), C: T.Tensor((m, n), T.int32)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_fragment((m, k), T.int4), T.alloc_shared((n, k), "uint4")
            c = T.alloc_fragment((m, n), T.int32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a, b, c = packed(run, m, k), packed(run, n, k), run.empty(m, n, dtype="int32")
    run(kernel, a, b, c)
    run.equal(c, (values(a, "int4") @ values(b, "uint4").T).to(torch.int32))


@TABLE(needs=("narrow", "gemm", "float16"))
def weights_of_four_bits_become_floats(run: Run) -> None:
    m, n, k, bk = 32, 48, 128, 64
    for dtype in DTYPES:

        @T.prim_func
        def kernel(X: T.Tensor((m, k), T.float16), W: T.Tensor((n, k), dtype), Y: T.Tensor((m, n), T.float32)):
            with T.Kernel(1, threads=64):
                x, w = T.alloc_shared((m, bk), T.float16), T.alloc_shared((n, bk), dtype)
                wide, y = T.alloc_shared((n, bk), T.float16), T.alloc_fragment((m, n), T.float32)
                T.clear(y)
                for ko in T.Pipelined(k // bk, num_stages=2):
                    T.copy(X[0, ko * bk], x)
                    T.copy(W[0, ko * bk], w)
                    for i, j in T.Parallel(n, bk):
                        wide[i, j] = T.cast(w[i, j], "float16")
                    T.gemm(x, wide, y, transpose_B=True)
                T.copy(y, Y)

        x, w = run.integers(m, k, dtype="float16"), packed(run, n, k)
        y = run.empty(m, n)
        run(kernel, x, w, y)
        run.equal(y, (x.double() @ values(w, dtype).T).float())
