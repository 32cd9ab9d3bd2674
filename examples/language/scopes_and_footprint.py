"""Scopes and what they cost: shared memory of a block, registers of a thread.

    python examples/language/scopes_and_footprint.py [--target TARGET] [--figures DIR]

A matrix multiply whose block keeps three stages of two tiles in shared memory and a 128 × 128 float32 accumulator in
the registers of 128 threads: 64 KiB, which are 512 bytes or 128 registers a thread. `kernel.report()` says so for every
target, since it is what the program declares, and beside it what the target made of it. One whose blocks have less
shared memory refuses it and names the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from harness import draw, options

import tile_core as tl
import tile_core.language as T
from tile_core.errors import SharedMemoryLimitError

M = N = 128
K, BLOCK_K, STAGES, THREADS = 256, 32, 3, 128
SCOPES = {"shared.dyn": "#7fb069", "local.fragment": "#5b8fd6", "local": "#e0a030", "local.var": "#b05f9a"}


@T.prim_func
def matmul(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float32)):
    with T.Kernel(1, threads=THREADS):
        a_stages = T.alloc_shared((STAGES, M, BLOCK_K), T.float16)
        b_stages = T.alloc_shared((STAGES, BLOCK_K, N), T.float16)
        accumulator = T.alloc_fragment((M, N), T.float32)
        stage = T.alloc_var(T.int32, init=0)
        T.clear(accumulator)
        for k in range(K // BLOCK_K):
            stage = k % STAGES
            T.copy(A[0:M, k * BLOCK_K : (k + 1) * BLOCK_K], a_stages[stage, :, :])
            T.copy(B[k * BLOCK_K : (k + 1) * BLOCK_K, 0:N], b_stages[stage, :, :])
            T.gemm(a_stages[stage, :, :], b_stages[stage, :, :], accumulator)
        T.copy(accumulator, C)


def check_numbers(kernel: Any) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    c = torch.full((M, N), float("nan"), device=kernel.device)
    kernel(a.to(kernel.device), b.to(kernel.device), c)
    torch.testing.assert_close(c.cpu(), a.float() @ b.float(), rtol=1e-5, atol=1e-4)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    try:
        kernel = tl.compile(matmul, target=chosen.target)
    except SharedMemoryLimitError as error:
        print(f"refused on {chosen.target.kind} ({error.code}): {error.message}")
        return
    check_numbers(kernel)
    report = kernel.report()
    footprint = report["footprint"]

    print(f"{'tile':<14}{'scope':<16}{'dtype':<10}{'shape':<16}{'bytes':>8}")
    for tile in footprint["buffers"]:
        shape = " × ".join(map(str, tile["shape"]))
        print(f"{tile['name']:<14}{tile['scope']:<16}{tile['dtype']:<10}{shape:<16}{tile['bytes']:>8}")

    a_tile, b_tile = M * BLOCK_K * 2, BLOCK_K * N * 2
    print(f"\nshared: {STAGES} stages × ({a_tile} + {b_tile}) = {footprint['shared_bytes']} bytes a block")
    assert footprint["shared_bytes"] == STAGES * (a_tile + b_tile) == 48 * 1024

    accumulator = next(tile for tile in footprint["buffers"] if tile["name"] == "accumulator")
    a_thread = accumulator["bytes"] // THREADS
    print(f"accumulator: {accumulator['bytes'] // 1024} KiB = {a_thread} bytes or {a_thread // 4} registers a thread")
    assert (accumulator["bytes"], a_thread, a_thread // 4) == (64 * 1024, 512, 128)

    print(
        f"with the variable: {footprint['bytes_a_thread']} bytes, {footprint['registers_a_thread']} registers a thread"
    )
    assert footprint["registers_a_thread"] == 128 + 1

    rest = {key: report[key] for key in ("shared_bytes", "fragments_in_shared", "tiles") if key in report}
    print(f"\nwhat {kernel.target.kind} made of it:")
    for key, value in rest.items():
        print(f"  {key}: {value}")
    if not rest:
        print("  nothing is lowered on this target")
    draw(chosen.figures / "scopes_and_footprint.png", (7, 2.6), lambda axes: paint(axes, footprint["buffers"]))


def paint(axes: Any, tiles: Sequence[dict[str, Any]]) -> None:
    names = [tile["name"] for tile in tiles]
    axes.barh(names, [tile["bytes"] / 1024 for tile in tiles], color=[SCOPES[tile["scope"]] for tile in tiles])
    for row, tile in enumerate(tiles):
        own = tile["bytes"] / THREADS if tile["scope"] == "local.fragment" else tile["bytes"]
        a_thread = f", {own:g} bytes a thread" if tile["scope"] != "shared.dyn" else ""
        axes.text(
            tile["bytes"] / 1024 + 1, row, f"{tile['bytes']} bytes, {tile['scope']}{a_thread}", va="center", fontsize=8
        )
    axes.invert_yaxis()
    axes.set(xlim=(0, 125), xlabel="KiB a block")
    axes.tick_params(labelsize=8)
    axes.set_title(f"tiles of one block of {THREADS} threads", fontsize=10)


if __name__ == "__main__":
    main()
