"""The programs that `cpu.py` measures and tests of tile-cpu check: portable, for any extent.

Extents are numbers or symbols (`T.dynamic`), but for the columns of a row and of a head.
"""

from __future__ import annotations

import math

import tile_core.language as T

BLOCKS = {"bfloat16": (256, 1024), "int8": (256, 1024)}
"""Rows and columns of a block of C, (512, 256) for other dtypes: as much as the second-level cache holds beside the
operands. The larger a block, the less often they are read again; matrix tiles outrun that memory first."""


def gemm(M, N, K, dtype, out="float32", bm=None, bn=None, bk=64):
    """C = A @ B in `out`."""
    rows, columns = BLOCKS.get(dtype, (512, 256))
    bm, bn = bm or rows, bn or columns
    total = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), total)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def gemm_gelu(M, N, K, dtype, out="float32", bm=512, bn=256, bk=64):
    """C = gelu(A @ B + bias) in `out`, by the error function."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), bias: T.Tensor((N,), dtype), C: T.Tensor((M, N), out)
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(bm, bn):
                c[i, j] = c[i, j] + bias[bx * bn + j]
            for i, j in T.Parallel(bm, bn):
                c[i, j] = c[i, j] * 0.5 * (1.0 + T.erf(c[i, j] * math.sqrt(0.5)))
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def add(N, dtype, block=4096):
    """C = A + B."""

    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return kernel


def softmax(M, N):
    """Softmax over the last axis, one row a block."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as bx:
            x = T.alloc_fragment((1, N), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                Y[bx + i, j] = x[i, j] / total[i]

    return kernel


def rms_norm(M, N, eps=1e-6):
    """X / sqrt(mean(X²) + eps) * W, one row a block."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as bx:
            x = T.alloc_fragment((1, N), "float32")
            square = T.alloc_fragment((1, N), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            for i, j in T.Parallel(1, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(1, N):
                Y[bx + i, j] = x[i, j] * T.rsqrt(total[i] / N + eps) * W[j]

    return kernel


def attention(H, S, D, dtype, causal, bq=64, bk=None):
    """softmax(Q K^T / sqrt(D)) V for H heads, keys beyond a query hidden when `causal`.

    Powers of two, as attention is usually written: the factor of the scores and that of the base are one. Rows whose
    maximum stays are not scaled. A block of scores stays in the first-level cache; a narrow one hides less of itself
    along the diagonal.
    """
    bk = bk or (64 if causal else 128)
    is_ragged = not isinstance(S, int) or S % bk != 0
    scale = math.log2(math.e) / math.sqrt(D)

    @T.prim_func
    def kernel(
        Q: T.Tensor((H, S, D), dtype),
        K: T.Tensor((H, S, D), dtype),
        V: T.Tensor((H, S, D), dtype),
        Out: T.Tensor((H, S, D), dtype),
    ):
        with T.Kernel(T.ceildiv(S, bq), H) as (bx, h):
            q = T.alloc_shared((bq, D), dtype)
            k = T.alloc_shared((bk, D), dtype)
            v = T.alloc_shared((bk, D), dtype)
            s = T.alloc_fragment((bq, bk), "float32")
            p = T.alloc_shared((bq, bk), dtype)
            o = T.alloc_fragment((bq, D), "float32")
            largest = T.alloc_fragment((bq,), "float32")
            before = T.alloc_fragment((bq,), "float32")
            total = T.alloc_fragment((bq,), "float32")
            part = T.alloc_fragment((bq,), "float32")
            T.copy(Q[h, bx * bq, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            blocks = T.ceildiv((bx + 1) * bq, bk) if causal else T.ceildiv(S, bk)
            for t in T.Pipelined(blocks, num_stages=2):
                T.copy(K[h, t * bk, 0], k)
                T.copy(V[h, t * bk, 0], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(bq, bk):
                    if causal:
                        s[i, j] = T.Select(bx * bq + i >= t * bk + j, s[i, j], -T.infinity("float32"))
                    elif is_ragged:
                        s[i, j] = T.Select(t * bk + j < S, s[i, j], -T.infinity("float32"))
                T.copy(largest, before)
                T.reduce_max(s, largest, dim=1, clear=False)
                for i, j in T.Parallel(bq, bk):
                    s[i, j] = T.exp2(s[i, j] * scale - largest[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(bq):
                    before[i] = T.exp2((before[i] - largest[i]) * scale)
                for i in T.Parallel(bq):
                    total[i] = total[i] * before[i] + part[i]
                for i, j in T.Parallel(bq, D):
                    if before[i] != 1:
                        o[i, j] = o[i, j] * before[i]
                T.copy(s, p)
                T.gemm(p, v, o)
            for i, j in T.Parallel(bq, D):
                o[i, j] = o[i, j] / total[i]
            T.copy(o, Out[h, bx * bq, 0])

    return kernel
