"""Products with weights of four bits (w4a16): unpacked in registers, where the tensor cores read them.

    python examples/dequant_gemm.py [--target TARGET] [--size M N K] [--weights uint4|e2m1]

Two weights of a row lie in a byte, the first in its low bits; each group of weights along K has a scale. The weights of
a block are a fragment, so they are never written anywhere: a thread loads the bytes of the weights that its tensor
cores want from it, and turns them into halves two at a time. Checks against torch.

Weights are integers with a zero point, or floats of a sign, two bits of exponent and one of mantissa (e2m1, "fp4"). The
bits of such a float are those of a wider one with the same exponent field, which is too small by a power of two:
numbers below the smallest normal one come out right too.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

ZERO = 8
"""What an integer weight's four bits say for 0."""
WIDER = {"float16": (16, 9, 2.0**14), "bfloat16": (16, 6, 2.0**126), "float32": (32, 22, 2.0**126)}
"""Of a float: its bits, where the three bits of e2m1's magnitude belong, and the power of two that is missing then."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of e2m1 by their bits."""


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
    weights: str = "uint4",
) -> Any:
    """C = A @ Wᵀ, W[i, j] = (the four bits − 8, or as e2m1) · scale[j // group, i]; float32 accumulation.

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
    width, place, power = WIDER[dtype]

    @T.macro
    def number(bits: Any) -> Any:
        if weights == "uint4":
            return T.cast(bits, dtype) - ZERO
        wide = (bits & 8) << (width - 4) | (bits & 7) << place
        return T.reinterpret(T.cast(wide, f"uint{width}"), dtype) * T.cast(power, dtype)

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
            held = T.alloc_fragment((bn, bk), dtype)
            total = T.alloc_fragment((bm, bn), T.float32)
            T.copy(Scale[bz * steps * bk // group, bx * bn], scales)
            T.clear(total)
            for turn in T.Pipelined(steps, num_stages=num_stages):
                step = bz * steps + turn
                T.copy(A[by * bm, step * bk], A_shared)
                T.copy(B[bx * bn, step * (bk // 2)], B_shared)
                for i, j in T.Parallel(bn, bk):
                    bits = (B_shared[i, j // 2] >> (j % 2 * 4)) & 15
                    held[i, j] = number(bits) * scales[(turn * bk + j) // group, i]
                T.gemm(A_shared, held, total, transpose_B=True)
            if split == 1:
                T.copy(total, C[by * bm, bx * bn])
            else:
                T.atomic_add(C[by * bm, bx * bn], total)

    return kernel


def unpacked(b: torch.Tensor, scale: torch.Tensor, group: int, weights: str = "uint4") -> torch.Tensor:
    """The weights as float32, (n, k)."""
    bits = torch.stack((b & 15, b >> 4), dim=-1).reshape(b.shape[0], -1)
    table = [value - ZERO for value in range(16)] if weights == "uint4" else [*E2M1, *(-value for value in E2M1)]
    numbers = torch.tensor(table, dtype=torch.float32, device=b.device)[bits.long()]
    return numbers * scale.float().repeat_interleave(group, dim=0).T


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--size", type=int, nargs=3, default=(16, 256, 512), metavar=("M", "N", "K"))
    parser.add_argument("--weights", choices=("uint4", "e2m1"), default="uint4", help="what four bits mean")
    options = parser.parse_args()
    m, n, k = options.size
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    a = torch.randn(m, k, device=device).to(dtype)
    b = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device)
    scale = (torch.rand(k // 128, n, device=device) + 0.5).to(dtype)
    c = torch.empty(m, n, device=device, dtype=dtype)
    program = dequant_gemm(m, n, k, str(dtype).removeprefix("torch."), weights=options.weights)
    tl.compile(program, target=options.target)(a, b, scale, c)
    expected = a.float() @ unpacked(b, scale, 128, options.weights).T
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-2 * k**0.5)
    print(f"{m} × {n} × {k} with weights of four bits on {device}: right")


if __name__ == "__main__":
    main()
