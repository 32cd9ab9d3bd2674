"""The memory of tiles: every way out of a function gives back what it took."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

CALLS, BLOCKS, COLUMNS = 24, 4, 128 * 1024
TILE = COLUMNS * 4
STATM = Path("/proc/self/statm")

pytestmark = pytest.mark.skipif(not STATM.exists(), reason="asks Linux how much memory the process uses")


def resident() -> int:
    gc.collect()
    return int(STATM.read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@T.prim_func
def doubled(A: T.Tensor((BLOCKS, COLUMNS), "float32"), B: T.Tensor((BLOCKS, COLUMNS), "float32")):
    with T.Kernel(BLOCKS) as bx:
        tile = T.alloc_shared((1, COLUMNS), "float32")
        T.copy(A[bx, 0], tile)
        for i, j in T.Parallel(1, COLUMNS):
            tile[i, j] = tile[i, j] * 2.0
        T.copy(tile, B[bx, 0])


@T.prim_func
def checked(A: T.Tensor((BLOCKS, COLUMNS), "float32"), B: T.Tensor((BLOCKS, COLUMNS), "float32")):
    with T.Kernel(BLOCKS) as bx:
        tile = T.alloc_shared((1, COLUMNS), "float32")
        T.copy(A[bx, 0], tile)
        for i, j in T.Parallel(1, COLUMNS):
            tile[i, j] = tile[i, j] * 2.0
        T.copy(tile, B[bx, 0])
        T.device_assert(B[bx, 0] < 0.0)


@T.prim_func
def shared(A: T.Tensor((BLOCKS, COLUMNS), "float32"), B: T.Tensor((BLOCKS, COLUMNS), "float32")):
    workspace = T.alloc_global((BLOCKS, COLUMNS), "float32")
    with T.Kernel(BLOCKS) as bx:
        T.copy(A[bx, 0:COLUMNS], workspace[bx, 0:COLUMNS])
    with T.Kernel(BLOCKS) as bx:
        for j in T.Parallel(COLUMNS):
            B[bx, j] = workspace[bx, j] * 2.0


@pytest.mark.parametrize("program", [doubled, shared], ids=["tiles of blocks", "what blocks share"])
def test_a_call_takes_what_the_last_one_gave_back(program: Any) -> None:
    kernel = tl.compile(program, target="cpu")
    a, b = torch.randn(BLOCKS, COLUMNS), torch.full((BLOCKS, COLUMNS), float("nan"))
    kernel(a, b)
    before = resident()
    for _ in range(CALLS):
        kernel(a, b)
    assert torch.equal(b, a * 2)
    assert resident() - before < CALLS * BLOCKS * TILE // 4


def test_a_block_that_fails_gives_its_tiles_back() -> None:
    kernel = tl.compile(checked, target="cpu")
    a, b = torch.ones(BLOCKS, COLUMNS), torch.full((BLOCKS, COLUMNS), float("nan"))

    def call() -> None:
        with pytest.raises(AssertionError):
            kernel(a, b)

    call()
    before = resident()
    for _ in range(CALLS):
        call()
    assert resident() - before < CALLS * TILE // 2
