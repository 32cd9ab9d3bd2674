"""Products with something fused behind them, and products of scaled 8-bit floats, in the portable language.

    python examples/gemm_epilogues.py [--target TARGET]

Checks each against torch.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

Block = tuple[int, int, int]
LARGEST = 448.0
"""The largest number of float8_e4m3fn."""
SCALED = 128
"""Elements of K, and of N, that one scale is for."""


def gemm_bias_silu_residual(m: int, n: int, k: int, dtype: str = "float16", block: Block = (128, 128, 64)) -> Any:
    """C = silu(A @ B + bias) + residual."""
    bm, bn, bk = block

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((k, n), dtype),
        bias: T.Tensor((n,), dtype),
        residual: T.Tensor((m, n), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
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
                C_local[i, j] = x / (1.0 + T.exp(-x)) + residual[by * bm + i, bx * bn + j]
            T.copy(C_local, C[by * bm, bx * bn])

    return kernel


def gemm_quantized(m: int, n: int, k: int, dtype: str = "float16", block: Block = (128, 128, 64)) -> Any:
    """C · scale = A @ B, C in float8_e4m3fn: one scale, float32, for each row of a block's columns."""
    bm, bn, bk = block

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((k, n), dtype),
        C: T.Tensor((m, n), T.float8_e4m3fn),
        scale: T.Tensor((m, -(-n // bn)), T.float32),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), T.float32)
            largest = T.alloc_fragment((bm,), T.float32)
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=3):
                T.copy(A[by * bm, step * bk], A_shared)
                T.copy(B[step * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.reduce_absmax(C_local, largest, dim=1)
            for i in T.Parallel(bm):
                largest[i] = T.max(largest[i], 1e-4) / LARGEST
                if by * bm + i < m:
                    scale[by * bm + i, bx] = largest[i]
            for i, j in T.Parallel(bm, bn):
                C_local[i, j] = C_local[i, j] / largest[i]
            T.copy(C_local, C[by * bm, bx * bn])

    return kernel


def gemm_scaled(m: int, n: int, k: int, out: str = "bfloat16", block: tuple[int, int] = (64, 128)) -> Any:
    """C = A @ Bᵀ of float8_e4m3fn with a scale for 1 × 128 of A and 128 × 128 of B.

    The tensor cores sum 128 products; those sums are scaled and added up in float32, with all of its bits.
    """
    bm, bn = block

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), T.float8_e4m3fn),
        B: T.Tensor((n, k), T.float8_e4m3fn),
        A_scale: T.Tensor((m, -(-k // SCALED)), T.float32),
        B_scale: T.Tensor((-(-n // SCALED), -(-k // SCALED)), T.float32),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, SCALED), T.float8_e4m3fn)
            B_shared = T.alloc_shared((bn, SCALED), T.float8_e4m3fn)
            part = T.alloc_fragment((bm, bn), T.float32)
            total = T.alloc_fragment((bm, bn), T.float32)
            T.clear(total)
            for step in T.Pipelined(T.ceildiv(k, SCALED), num_stages=4):
                T.copy(A[by * bm, step * SCALED], A_shared)
                T.copy(B[bx * bn, step * SCALED], B_shared)
                T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(bm, bn):
                    scale = A_scale[by * bm + i, step] * B_scale[bx * bn // SCALED, step]
                    total[i, j] = total[i, j] + part[i, j] * scale
            T.copy(total, C[by * bm, bx * bn])

    return kernel


def scaled_operands(rows: int, k: int, height: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Random rows in float8_e4m3fn, a scale for each `height` × 128, and what the two mean in float32."""
    values = torch.randn(rows, k, generator=generator).to(torch.float8_e4m3fn)
    scales = torch.rand(-(-rows // height), -(-k // SCALED), generator=generator) + 0.5
    wide = scales.repeat_interleave(height, 0)[:rows].repeat_interleave(SCALED, 1)[:, :k]
    return values, scales, values.float() * wide


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    m, n, k, text = 256, 384, 512, str(dtype).removeprefix("torch.")
    a, b = (torch.randn(shape, device=device).to(dtype) for shape in ((m, k), (k, n)))
    bias, residual = torch.randn(n, device=device).to(dtype), torch.randn(m, n, device=device).to(dtype)
    c = torch.empty(m, n, device=device, dtype=dtype)
    tl.compile(gemm_bias_silu_residual(m, n, k, text), target=options.target)(a, b, bias, residual, c)
    expected = torch.nn.functional.silu(a.float() @ b.float() + bias.float()) + residual.float()
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-1)
    print(f"bias, silu and residual behind {m} × {n} × {k} {text} on {device}: right")
    small = torch.empty(m, n, device=device, dtype=torch.float8_e4m3fn)
    scale = torch.empty(m, n // 128, device=device)
    tl.compile(gemm_quantized(m, n, k, text), target=options.target)(a, b, small, scale)
    found = small.float() * scale.repeat_interleave(128, 1)
    torch.testing.assert_close(found, a.float() @ b.float(), rtol=7e-2, atol=1.0)
    print(f"{m} × {n} × {k} {text} to float8_e4m3fn on {device}: right")
    generator = torch.Generator().manual_seed(0)
    left, left_scale, left_wide = scaled_operands(m, k, 1, generator)
    right, right_scale, right_wide = scaled_operands(n, k, SCALED, generator)
    c = torch.empty(m, n, device=device, dtype=torch.bfloat16)
    operands = (one.to(device) for one in (left, right, left_scale, right_scale))
    tl.compile(gemm_scaled(m, n, k), target=options.target)(*operands, c)
    torch.testing.assert_close(c.cpu().float(), left_wide @ right_wide.T, rtol=2e-2, atol=0.3)
    print(f"{m} × {n} × {k} float8_e4m3fn with scales on {device}: right")


if __name__ == "__main__":
    main()
