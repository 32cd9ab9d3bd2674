"""Matrix products in the portable language: the plain one, and one with its epilogue fused.

    python examples/gemm.py [--target TARGET] [--size M N K]

Checks both against torch. On a GPU with tensor cores the loop becomes a pipeline of asynchronous copies.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T


def gemm(
    m: int,
    n: int,
    k: int,
    dtype: str = "float16",
    out_dtype: str | None = None,
    *,
    transpose_b: bool = False,
    block: tuple[int, int, int] = (128, 128, 64),
    num_stages: int = 3,
    threads: int = 128,
    panel: int = 8,
) -> Any:
    """C = A @ B, or A @ Bᵀ, accumulated in float32 (int32 for integers).

    `block` is the tile (M, N, K) of one block of threads; blocks walk the grid in panels of `panel` rows of tiles.
    """
    bm, bn, bk = block
    result = out_dtype or dtype
    total = "int32" if dtype in ("int8", "uint8") else "float32"
    b_shape, b_tile = ((n, k), (bn, bk)) if transpose_b else ((k, n), (bk, bn))

    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), result)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((bm, bn), total)
            T.use_swizzle(panel)
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=num_stages):
                T.copy(A[by * bm, step * bk], A_shared)
                if transpose_b:
                    T.copy(B[bx * bn, step * bk], B_shared)
                else:
                    T.copy(B[step * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_b)
            T.copy(C_local, C[by * bm, bx * bn])

    return kernel


def gemm_bias_gelu(m: int, n: int, k: int, dtype: str = "float16", *, threads: int = 128) -> Any:
    """C = gelu(A @ B + bias), the tanh form, fused into the product."""
    bm, bn, bk = 128, 128, 64

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), bias: T.Tensor((n,), dtype), C: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), T.float32)
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=3):
                T.copy(A[by * bm, step * bk], A_shared)
                T.copy(B[step * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(bm, bn):
                x = C_local[i, j] + bias[bx * bn + j]
                C_local[i, j] = 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
            T.copy(C_local, C[by * bm, bx * bn])

    return kernel


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--size", type=int, nargs=3, default=(512, 384, 256), metavar=("M", "N", "K"))
    options = parser.parse_args()
    m, n, k = options.size
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = "float16" if device == "cuda" else "float32"
    a, b = (torch.randn(shape, device=device).to(getattr(torch, dtype)) for shape in ((m, k), (k, n)))
    bias, c = torch.randn(n, device=device).to(a.dtype), torch.empty(m, n, device=device, dtype=a.dtype)
    tl.compile(gemm(m, n, k, dtype), target=options.target)(a, b, c)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-1)
    tl.compile(gemm_bias_gelu(m, n, k, dtype), target=options.target)(a, b, bias, c)
    expected = torch.nn.functional.gelu(a.float() @ b.float() + bias.float(), approximate="tanh")
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-1)
    print(f"gemm and gemm + bias + gelu of {m} × {n} × {k} {dtype} on {device}: right")


if __name__ == "__main__":
    main()
