"""Products with other schedules: split K, equal shares of all steps (stream-K), and groups of rows (experts).

    python examples/gemm_schedules.py [--target TARGET]

Checks each against torch. All are in the portable language.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

Block = tuple[int, int, int]


def split_k(m: int, n: int, k: int, splits: int, dtype: str = "float16", block: Block = (128, 128, 64)) -> Any:
    """C += A @ B: `splits` blocks sum a tile's parts of K and add them up. C is float32."""
    bm, bn, bk = block
    steps = T.ceildiv(T.ceildiv(k, bk), splits)

    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), T.float32)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), splits, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), T.float32)
            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=3):
                T.copy(A[by * bm, (bz * steps + step) * bk], A_shared)
                T.copy(B[(bz * steps + step) * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * bm, bx * bn], C_local)

    return kernel


def stream_k(m: int, n: int, k: int, workers: int, dtype: str = "float16", block: Block = (128, 128, 64)) -> Any:
    """C += A @ B: each worker takes the same number of steps, whosever tiles they belong to. C is float32 and zero.

    A worker that has all steps of a tile stores it; the others add their parts.
    """
    bm, bn, bk = block
    columns, steps = -(-n // bn), -(-k // bk)
    total = -(-m // bm) * columns * steps
    share = -(-total // workers)
    pieces = -(-share // steps) + 1

    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), T.float32)):
        with T.Kernel(workers, threads=128) as worker:
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), T.float32)
            for piece in T.serial(pieces):
                tile = worker * share // steps + piece
                first = T.max(tile * steps, worker * share)
                last = T.min(T.min((tile + 1) * steps, (worker + 1) * share), total)
                row, column = tile // columns * bm, tile % columns * bn
                if first < last:
                    T.clear(C_local)
                    for step in T.Pipelined(last - first, num_stages=3):
                        T.copy(A[row, (first - tile * steps + step) * bk], A_shared)
                        T.copy(B[(first - tile * steps + step) * bk, column], B_shared)
                        T.gemm(A_shared, B_shared, C_local)
                    if last - first == steps:
                        T.copy(C_local, C[row, column])
                    else:
                        T.atomic_add(C[row, column], C_local)

    return kernel


def grouped(
    rows: int, groups: int, n: int, k: int, tiles: int, dtype: str = "float16", block: Block = (128, 128, 64)
) -> Any:
    """C[r] = A[r] @ B[group of r]: `tiles` tiles of rows, each of one group, as `tiles_of_groups` lists them."""
    bm, bn, bk = block

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, k), dtype),
        B: T.Tensor((groups, k, n), dtype),
        Tiles: T.Tensor((tiles, 3), T.int32),
        C: T.Tensor((rows, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, bn), tiles, threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), T.float32)
            group, first, end = Tiles[by, 0], Tiles[by, 1], Tiles[by, 2]
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=3):
                T.copy(A[first : first + bm, step * bk : step * bk + bk], A_shared)
                T.copy(B[group, step * bk : step * bk + bk, bx * bn : bx * bn + bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(bm, bn):
                if first + i < end:
                    C[first + i, bx * bn + j] = C_local[i, j]

    return kernel


def tiles_of_groups(sizes: Sequence[int], height: int) -> torch.Tensor:
    """Group, first row and end of every tile of up to `height` rows, int32, for groups of `sizes` rows in a row."""
    found, begin = [], 0
    for group, size in enumerate(sizes):
        found += [(group, row, begin + size) for row in range(begin, begin + size, height)]
        begin += size
    return torch.tensor(found, dtype=torch.int32).reshape(-1, 3)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    text = str(dtype).removeprefix("torch.")
    a, b = (torch.randn(shape, device=device).to(dtype) for shape in ((256, 1024), (1024, 384)))
    for name, program in (
        ("split K", split_k(256, 384, 1024, 4, text)),
        ("stream-K", stream_k(256, 384, 1024, 5, text)),
    ):
        c = torch.zeros(256, 384, device=device)
        tl.compile(program, target=options.target)(a, b, c)
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-1)
        print(f"{name} of 256 × 384 × 1024 {text} on {device}: right")
    sizes = (100, 0, 28, 128)
    experts = torch.randn(len(sizes), 1024, 384, device=device).to(dtype)
    tiles = tiles_of_groups(sizes, 128).to(device)
    c = torch.empty(256, 384, device=device, dtype=dtype)
    tl.compile(grouped(256, len(sizes), 384, 1024, len(tiles), text), target=options.target)(a, experts, tiles, c)
    expected = [part.float() @ expert.float() for part, expert in zip(a.split(sizes), experts, strict=True)]
    torch.testing.assert_close(c.float(), torch.cat(expected), rtol=1e-2, atol=1e-1)
    print(f"groups of {sizes} rows × 384 × 1024 {text} on {device}: right")


if __name__ == "__main__":
    main()
