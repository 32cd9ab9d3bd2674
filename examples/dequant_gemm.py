"""Products with weights of four bits (w4a16): unpacked in registers, where the tensor cores read them.

    python examples/dequant_gemm.py [--target TARGET] [--size M N K]

Two weights of a row lie in a byte, the first in its low bits; each group of weights along K has a scale. The weights of
a block are a fragment, so they are never written anywhere: a thread loads the bytes of the weights that its tensor
cores want from it, and turns them into halves two at a time. Checks against torch.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

ZERO = 8
"""What a weight's four bits say for 0."""


def dequant_gemm(
    m: int,
    n: int,
    k: int,
    dtype: str = "float16",
    *,
    group: int = 128,
    block: tuple[int, int, int] = (16, 64, 256),
    threads: int = 128,
    num_stages: int = 4,
    split: int = 1,
) -> Any:
    """C = A @ Wᵀ, W[i, j] = (the four bits − 8) · scale[j // group, i]; float32 accumulation.

    A is (m, k), B (n, k / 2) bytes, `Scale` (k / group, n), C (m, n). `block` is the tile (M, N, K) of a block of
    threads; `split` blocks share the sum over K, and add to a C of float32 that begins at zero.

    Raises:
        ValueError: what a block sums is not whole groups.
    """
    bm, bn, bk = block
    steps = -(-k // (bk * split))
    if steps * bk % group or k % group:
        raise ValueError(f"a block sums {steps * bk} of {k} along K, which are no whole groups of {group}")
    groups = steps * bk // group

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((n, k // 2), "uint8"),
        Scale: T.Tensor((k // group, n), dtype),
        C: T.Tensor((m, n), dtype if split == 1 else "float32"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), split, threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bn, bk // 2), "uint8")
            scales = T.alloc_shared((groups, bn), dtype)
            weights = T.alloc_fragment((bn, bk), dtype)
            total = T.alloc_fragment((bm, bn), T.float32)
            T.copy(Scale[bz * steps * bk // group, bx * bn], scales)
            T.clear(total)
            for turn in T.Pipelined(steps, num_stages=num_stages):
                step = bz * steps + turn
                T.copy(A[by * bm, step * bk], A_shared)
                T.copy(B[bx * bn, step * (bk // 2)], B_shared)
                for i, j in T.Parallel(bn, bk):
                    bits = (B_shared[i, j // 2] >> (j % 2 * 4)) & 15
                    weights[i, j] = (T.cast(bits, dtype) - ZERO) * scales[(turn * bk + j) // group, i]
                T.gemm(A_shared, weights, total, transpose_B=True)
            if split == 1:
                T.copy(total, C[by * bm, bx * bn])
            else:
                T.atomic_add(C[by * bm, bx * bn], total)

    return kernel


def unpacked(b: torch.Tensor, scale: torch.Tensor, group: int) -> torch.Tensor:
    """The weights as float32, (n, k)."""
    bits = torch.stack((b & 15, b >> 4), dim=-1).reshape(b.shape[0], -1).float()
    return (bits - ZERO) * scale.float().repeat_interleave(group, dim=0).T


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--size", type=int, nargs=3, default=(16, 256, 512), metavar=("M", "N", "K"))
    options = parser.parse_args()
    m, n, k = options.size
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    a = torch.randn(m, k, device=device).to(dtype)
    b = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device)
    scale = (torch.rand(k // 128, n, device=device) + 0.5).to(dtype)
    c = torch.empty(m, n, device=device, dtype=dtype)
    tl.compile(dequant_gemm(m, n, k, str(dtype).removeprefix("torch.")), target=options.target)(a, b, scale, c)
    expected = a.float() @ unpacked(b, scale, 128).T
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-2 * k**0.5)
    print(f"{m} × {n} × {k} with weights of four bits on {device}: right")


if __name__ == "__main__":
    main()
