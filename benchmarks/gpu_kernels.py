"""The kernels that `gpu.py` measures, in the portable language: adds, rows, and movements of data.

Each function makes one program for given sizes. They need no GPU: the tests run them emulated at small sizes.
"""

from __future__ import annotations

from typing import Any

import tile_core.language as T

LOG2_E = 1.4426950408889634
LARGEST_E4M3 = 448.0


def add_parallel(n: int, dtype: str, block: int = 2048) -> Any:
    """The plain formulation: one T.Parallel over a block of elements."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


def add_fragments(n: int, dtype: str, block: int = 2048) -> Any:
    """Through fragments with T.copy."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            a = T.alloc_fragment((block,), dtype)
            b = T.alloc_fragment((block,), dtype)
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                a[i] = a[i] + b[i]
            T.copy(a, C[bx * block])

    return add


def add_shared(n: int, dtype: str, block: int = 2048) -> Any:
    """Through shared memory."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            a = T.alloc_shared((block,), dtype)
            b = T.alloc_shared((block,), dtype)
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                C[bx * block + i] = a[i] + b[i]

    return add


def add_vectorized(n: int, dtype: str, width: int = 8) -> Any:
    """Vectorised by hand, with a tail of single elements."""
    threads = 256
    block = threads * width

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
            tx = T.get_thread_binding()
            first = bx * block + tx * width
            if first + width <= n:
                for v in T.vectorized(width):
                    C[first + v] = A[first + v] + B[first + v]
            else:
                for v in T.serial(width):
                    if first + v < n:
                        C[first + v] = A[first + v] + B[first + v]

    return add


def add_rows(m: int, n: int, dtype: str, block: int = 1024) -> Any:
    """Two dimensions, any row length."""

    @T.prim_func
    def add(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block), m, threads=128) as (bx, by):
            for j in T.Parallel(block):
                C[by, bx * block + j] = A[by, bx * block + j] + B[by, bx * block + j]

    return add


def row_threads(n: int) -> int:
    """Threads for a row of `n` elements: at most 16 elements each, whole warps, at most 1024."""
    return min(1024, -(-n // 512) * 32)


def kept(n: int) -> str | None:
    """How long caches should keep what is read of rows of `n` elements: longer than what is written.

    Measured: one to three hundredths of the time less, where rows begin at whole vectors; elsewhere more.
    """
    return "evict_last" if n % 8 == 0 else None


def softmax(m: int, n: int, dtype: str) -> Any:
    """Row softmax, one row a block, computed in float32."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), T.float32)
            largest = T.alloc_fragment((1,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x, eviction_policy=kept(n))
            T.reduce_max(x, largest, dim=0)
            for j in T.Parallel(n):
                x[j] = T.exp2(x[j] * LOG2_E - largest[0] * LOG2_E)
            T.reduce_sum(x, total, dim=0)
            total[0] = 1.0 / total[0]
            for j in T.Parallel(n):
                Y[row, j] = x[j] * total[0]

    return kernel


def rms_norm(m: int, n: int, dtype: str, eps: float = 1e-6) -> Any:
    """RMSNorm, one row a block, computed in float32 of a row that is kept as it is."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), dtype)
            square = T.alloc_fragment((n,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x, eviction_policy=kept(n))
            for j in T.Parallel(n):
                square[j] = T.cast(x[j], "float32") * T.cast(x[j], "float32")
            T.reduce_sum(square, total, dim=0)
            total[0] = T.rsqrt(total[0] / n + eps)
            for j in T.Parallel(n):
                Y[row, j] = T.cast(x[j], "float32") * total[0] * W[j]

    return kernel


def layer_norm(m: int, n: int, dtype: str, eps: float = 1e-5) -> Any:
    """LayerNorm with weight and bias: the mean, then the mean of squared differences from it."""

    @T.prim_func
    def kernel(
        X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), dtype)
            square = T.alloc_fragment((n,), T.float32)
            mean = T.alloc_fragment((1,), T.float32)
            scale = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x)
            T.reduce_sum(x, mean, dim=0)
            mean[0] = mean[0] / n
            for j in T.Parallel(n):
                square[j] = (T.cast(x[j], "float32") - mean[0]) * (T.cast(x[j], "float32") - mean[0])
            T.reduce_sum(square, scale, dim=0)
            scale[0] = T.rsqrt(scale[0] / n + eps)
            for j in T.Parallel(n):
                Y[row, j] = (T.cast(x[j], "float32") - mean[0]) * scale[0] * W[j] + B[j]

    return kernel


def cast_per_token(m: int, n: int, dtype: str) -> Any:
    """Rows as float8_e4m3fn with one float32 scale each: the largest magnitude becomes 448."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), S: T.Tensor((m,), "float32"), Y: T.Tensor((m, n), "float8_e4m3fn")):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), dtype)
            largest = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x, eviction_policy=kept(n))
            T.reduce_absmax(x, largest, dim=0)
            largest[0] = T.max(largest[0], 1e-4)
            S[row] = largest[0] / LARGEST_E4M3
            largest[0] = LARGEST_E4M3 / largest[0]
            for j in T.Parallel(n):
                Y[row, j] = T.cast(x[j], "float32") * largest[0]

    return kernel


def swiglu(n: int, dtype: str, block: int = 2048) -> Any:
    """gate * sigmoid(gate) * up, in float32."""

    @T.prim_func
    def kernel(G: T.Tensor((n,), dtype), U: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                gate = T.cast(G[bx * block + i], "float32")
                up = T.cast(U[bx * block + i], "float32")
                Y[bx * block + i] = gate / (1.0 + T.exp2(gate * -LOG2_E)) * up

    return kernel


def transpose(b: int, m: int, n: int, dtype: str, tile: int = 64) -> Any:
    """The last two axes of a batch exchanged, through shared memory whose rows are padded against bank conflicts."""
    padded = tile + 2

    @T.prim_func
    def kernel(X: T.Tensor((b, m, n), dtype), Y: T.Tensor((b, n, m), dtype)):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), b, threads=256) as (bx, by, bz):
            s = T.alloc_shared((tile, padded), dtype)
            for i, j in T.Parallel(tile, tile):
                s[i, j] = X[bz, by * tile + i, bx * tile + j]
            for i, j in T.Parallel(tile, tile):
                Y[bz, bx * tile + i, by * tile + j] = s[j, i]

    return kernel


def cumsum(m: int, n: int, dtype: str) -> Any:
    """Running sums along rows."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), T.float32)
            T.copy(X[row, :], x)
            T.cumsum(x, dim=0)
            T.copy(x, Y[row, :])

    return kernel


def topk(m: int, n: int, k: int, dtype: str) -> Any:
    """The `k` largest of each row in order, and where they are: the first of equal ones first."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), V: T.Tensor((m, k), dtype), P: T.Tensor((m, k), "int32")):
        with T.Kernel(m, threads=row_threads(n)) as row:
            x = T.alloc_fragment((n,), T.float32)
            place = T.alloc_fragment((n,), T.int32)
            largest = T.alloc_fragment((1,), T.float32)
            at = T.alloc_fragment((1,), T.int32)
            T.copy(X[row, :], x)
            for rank in T.serial(k):
                T.reduce_max(x, largest, dim=0)
                for j in T.Parallel(n):
                    place[j] = T.if_then_else(x[j] == largest[0], j, n)
                T.reduce_min(place, at, dim=0)
                V[row, rank] = largest[0]
                P[row, rank] = at[0]
                for j in T.Parallel(n):
                    x[j] = T.if_then_else(j == at[0], -T.infinity("float32"), x[j])

    return kernel
