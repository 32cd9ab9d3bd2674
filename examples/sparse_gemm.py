"""A product with a 2:4 sparse A on NVIDIA's sparse tensor cores.

    python examples/sparse_gemm.py [--size M N K] [--arch sm_80]

Of every four neighbours of a row of A two are kept: here the two largest, as pruned weights are. `compress` gives the
kept elements and the bits that say where they were. Without a GPU the kernel runs emulated.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_cuda.language as T
from tile_cuda.target import detect

CHUNK, KEPT, BITS = 4, 2, 4


def compress(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The kept half of A (m, k / 2), the places (m, k / 16) in uint16, and A with the others set to zero."""
    m, k = a.shape
    chunks = a.reshape(m, k // CHUNK, CHUNK)
    places = chunks.float().abs().topk(KEPT, dim=-1).indices.sort(dim=-1).values
    kept = chunks.gather(-1, places)
    bits = (places[..., 0] | places[..., 1] << 2).reshape(m, -1, 16 // BITS)
    words = (bits << torch.arange(0, 16, BITS, device=a.device)).sum(-1).to(torch.int32).to(torch.uint16)
    return kept.reshape(m, k // 2), words, torch.zeros_like(chunks).scatter(-1, places, kept).reshape(m, k)


def sparse_gemm(
    m: int,
    n: int,
    k: int,
    dtype: str = "float16",
    *,
    block: tuple[int, int, int] = (128, 128, 64),
    threads: int = 128,
    num_stages: int = 3,
) -> Any:
    """C = A @ B for an A (m, k) of which `A` (m, k / 2) is stored, with places `E` (m, k / 16)."""
    bm, bn, bk = block

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k // 2), dtype),
        E: T.Tensor((m, k // 16), "uint16"),
        B: T.Tensor((k, n), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk // 2), dtype)
            E_shared = T.alloc_shared((bm, bk // 16), "uint16")
            B_shared = T.alloc_shared((bk, bn), dtype)
            total = T.alloc_fragment((bm, bn), T.float32)
            T.clear(total)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=num_stages):
                T.copy(A[by * bm, step * (bk // 2)], A_shared)
                T.copy(E[by * bm, step * (bk // 16)], E_shared)
                T.copy(B[step * bk, bx * bn], B_shared)
                T.gemm_sp(A_shared, E_shared, B_shared, total)
            T.copy(total, C[by * bm, bx * bn])

    return kernel


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_80", help="emulated architecture where there is no GPU")
    parser.add_argument("--size", type=int, nargs=3, default=(128, 128, 256), metavar=("M", "N", "K"))
    options = parser.parse_args()
    m, n, k = options.size
    is_native = detect().available
    device = "cuda" if is_native else "cpu"
    where: dict[str, Any] = {"target": "cuda"}
    if not is_native:
        where = {"target": {"kind": "cuda", "arch": options.arch}, "execution": "emulate"}
    a, b = (torch.randn(shape, device=device).half() for shape in ((m, k), (k, n)))
    kept, places, full = compress(a)
    c = torch.empty(m, n, device=device, dtype=torch.float16)
    tl.compile(sparse_gemm(m, n, k), **where)(kept, places, b, c)
    torch.testing.assert_close(c.float(), full.float() @ b.float(), rtol=1e-2, atol=1e-2 * k**0.5)
    print(f"{m} × {n} × {k} with a 2:4 sparse A on {device}: right")


if __name__ == "__main__":
    main()
