"""The grid and the index model: which block works on which elements, and what lies beyond the edge.

    python examples/language/grid_and_index_model.py [--target TARGET] [--figures DIR]

A matrix of M = 1000 by N = 700 in tiles of 256 × 128 needs a grid of (6, 4): x counts tiles along the columns and
varies fastest. The last tiles reach 24 rows and 68 columns beyond the edge; nothing there is read or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from harness import Options, draw, options

import tile_core as tl
import tile_core.language as T

M, N, BLOCK_M, BLOCK_N = 1000, 700, 256, 128
GRID = (T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M))
CUBE = (4, 3, 2)


@T.prim_func
def owners(Owner: T.Tensor((M, N), T.int32)):
    with T.Kernel(*GRID, threads=128) as (bx, by):
        for i, j in T.Parallel(BLOCK_M, BLOCK_N):
            Owner[by * BLOCK_M + i, bx * BLOCK_N + j] = by * GRID[0] + bx


@T.prim_func
def numbers(Blocks: T.Tensor((CUBE[0] * CUBE[1] * CUBE[2], 3), T.int32)):
    with T.Kernel(*CUBE, threads=1) as (bx, by, bz):
        p = (bz * CUBE[1] + by) * CUBE[0] + bx
        Blocks[p, 0] = bx
        Blocks[p, 1] = by
        Blocks[p, 2] = bz


def tiles(chosen: Options) -> None:
    blocks = GRID[0] * GRID[1]
    beyond = (GRID[1] * BLOCK_M - M, GRID[0] * BLOCK_N - N)
    print(f"{M} × {N} in tiles of {BLOCK_M} × {BLOCK_N}: grid {GRID}, {blocks} blocks")
    print(f"beyond the edge: {beyond[0]} rows, {beyond[1]} columns")
    assert GRID == (6, 4)
    assert blocks == 24
    assert beyond == (24, 68)

    kernel = tl.compile(owners, target=chosen.target)
    # The tensor is the beginning of a larger allocation, whose rest must stay as it is.
    memory = torch.full((M * N + 8192,), -1, dtype=torch.int32, device=kernel.device)
    kernel(memory[: M * N].view(M, N))
    owner = memory[: M * N].view(M, N).cpu()
    rows, columns = torch.arange(M)[:, None] // BLOCK_M, torch.arange(N)[None, :] // BLOCK_N
    assert torch.equal(owner, (rows * GRID[0] + columns).int())
    assert bool((memory[M * N :] == -1).all())
    sizes = torch.bincount(owner.flatten().long())
    print(f"elements of a block: {sizes.max()} inside, {sizes.min()} in the last corner; {sizes.sum()} in all")
    assert int(sizes.sum()) == M * N
    draw(chosen.figures / "grid_and_index_model.png", (6.4, 6.4), paint)


def paint(axes: Any) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((0, 0), N, M, facecolor="#cfe3f5", edgecolor="#1f4e79", linewidth=2))
    for p in range(GRID[0] * GRID[1]):
        bx, by = p % GRID[0], p // GRID[0]
        corner = (bx * BLOCK_N, by * BLOCK_M)
        axes.add_patch(Rectangle(corner, BLOCK_N, BLOCK_M, fill=False, edgecolor="#1f4e79", linewidth=0.8))
        label = f"p = {p}\nbx = {bx}\nby = {by}"
        axes.text(corner[0] + 6, corner[1] + BLOCK_M / 2, label, va="center", fontsize=8)
    width, height = GRID[0] * BLOCK_N, GRID[1] * BLOCK_M
    beyond = {"facecolor": "#f2c9c9", "edgecolor": "#a33", "hatch": "///", "alpha": 0.6, "linewidth": 0}
    axes.add_patch(Rectangle((N, 0), width - N, height, **beyond))
    axes.add_patch(Rectangle((0, M), N, height - M, **beyond))
    axes.set(xlim=(-8, width + 8), ylim=(height + 8, -8), xlabel=f"columns, N = {N}", ylabel=f"rows, M = {M}")
    axes.set_title(f"grid {GRID}: tiles of {BLOCK_M} × {BLOCK_N}; hatched: beyond the edge", fontsize=10)


def order(chosen: Options) -> None:
    gx, gy, gz = CUBE
    kernel = tl.compile(numbers, target=chosen.target)
    blocks = torch.full((gx * gy * gz, 3), -1, dtype=torch.int32, device=kernel.device)
    kernel(blocks)
    print(f"\ngrid {CUBE}, x fastest: bx = p % {gx}, by = p // {gx} % {gy}, bz = p // {gx * gy}")
    print("   p  bx by bz")
    for p, (bx, by, bz) in enumerate(blocks.cpu().tolist()):
        print(f"  {p:2}   {bx}  {by}  {bz}")
        assert (bx, by, bz) == (p % gx, p // gx % gy, p // (gx * gy))


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    tiles(chosen)
    order(chosen)


if __name__ == "__main__":
    main()
