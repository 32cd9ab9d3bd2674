"""Blocks that walk over tiles of different lengths: each tile is computed once, by whichever block."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors.emulator import EmulatedFenceError
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.passes.thread_scope import int32
from tile_core.plugins.manager import backend
from tile_core.targets.select import select_target
from tile_cuda.passes import ring, walk_tiles
from tile_cuda.passes.walk_tiles import FEW, LEAST_TURNS, Walk

ROWS = STEP = DEPTH = 64
UNEVEN = ("uneven", "panels", "atomic")
SM_90 = {"kind": "cuda", "arch": "sm_90"}


@pytest.mark.parametrize("tiles", [1, 2, 5, 12, 13, 24, 31, 100])
@pytest.mark.parametrize(("together", "each"), [(1, 1), (2, 3), (4, 3), (7, 6)])
def test_every_tile_has_one_block(tiles: int, together: int, each: int) -> None:
    walk = Walk(tiles, together, each)
    found = []
    for block in range(walk.blocks):
        own = [int(walk.tile(int32(block), int32(turn)).value) for turn in range(each)]
        assert own == sorted(own)
        assert own[0] < tiles, "no block is without a tile"
        found += [tile for tile in own if tile < tiles]
        assert own[-1] <= walk.highest
    assert sorted(found) == list(range(tiles))
    last = [
        int(walk.tile(int32(block), int32(each - 1)).value) for block in range(ceil(walk.blocks / together) * together)
    ]
    assert max(last) == walk.highest


def two_products(rows: int, heads: int, kind: str, depth: int = DEPTH) -> Any:
    """R = Σ half(0.1 · A K_sᵀ) V_s over the first steps: as many for all rows, or one more for each block of rows."""
    tiles = rows // ROWS

    @T.prim_func
    def program(
        A: T.Tensor((heads, rows, depth), "float16"),
        K: T.Tensor((heads, rows, depth), "float16"),
        V: T.Tensor((heads, rows, depth), "float16"),
        Hits: T.Tensor((tiles,), "int32"),
        R: T.Tensor((heads, rows, depth), "float16"),
    ):
        with T.Kernel(tiles, heads, threads=128) as (bx, by):
            if kind == "panels":
                T.use_swizzle(2)
            a = T.alloc_shared((ROWS, depth), "float16")
            own = T.alloc_fragment((ROWS, depth), "float16")
            k = T.alloc_shared((STEP, depth), "float16")
            v = T.alloc_shared((STEP, depth), "float16")
            scores = T.alloc_fragment((ROWS, STEP), "float32")
            weights = T.alloc_fragment((ROWS, STEP), "float16")
            result = T.alloc_fragment((ROWS, depth), "float32")
            T.copy(A[by, bx * ROWS, 0], a)
            if kind == "registers":
                T.copy(a, own)
            T.clear(result)
            T.clear(weights)
            T.clear(scores)
            for step in T.Pipelined(bx + 1 if kind in UNEVEN else tiles, num_stages=2):
                T.copy(K[by, step * STEP, 0], k)
                T.copy(V[by, step * STEP, 0], v)
                left = own if kind == "registers" else a
                T.gemm(left, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                if kind == "side by side":
                    T.gemm(a, v, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                else:
                    for i, j in T.Parallel(ROWS, STEP):
                        weights[i, j] = scores[i, j] * 0.1
                    T.gemm(weights, v, result, policy=T.GemmWarpPolicy.FullRow)
            if kind == "atomic":
                T.atomic_add(Hits[bx], 1)
            T.copy(result, R[by, bx * ROWS, 0])

    return program


@pytest.mark.parametrize(
    ("kind", "tiles", "heads", "blocks"),
    [
        ("even", 8, 40, [132]),
        ("even", 4, 33, []),
        ("even", 8, 400, [132]),
        ("uneven", 8, 400, [132]),
        ("uneven", 8, 100, [272]),
        ("uneven", 8, 32, []),
        ("atomic", 8, 400, []),
        ("side by side", 8, 40, []),
        ("even", 2**16, 2**15, []),
    ],
)
def test_who_walks_unasked(kind: str, tiles: int, heads: int, blocks: list[int]) -> None:
    """More tiles than blocks fit, which 32 bits count, in kernels that multiply what threads have computed."""
    program = two_products(tiles * ROWS, heads, kind, depth=256)
    request = CompileRequest(select_target(SM_90), {}, (), "native")
    assert lower(program, request, backend("cuda"))[1]["persistent_blocks"] == blocks


@pytest.mark.emulate
def test_a_tile_that_is_filled_again_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads load from `a` once a turn, and say so; that they have loaded it is what the fence is for."""
    program = two_products(4 * ROWS, 3, "registers")
    assert_right(program, 2)
    monkeypatch.setattr(ring, "have_read", lambda: [ring.together()])
    with pytest.raises(EmulatedFenceError, match=r"writes a\[0\], which thread .* reads"):
        assert_right(two_products(4 * ROWS, 3, "registers"), 2)


def assert_right(program: Any, blocks: int) -> None:
    torch.manual_seed(4)
    a, k, v = torch.randn(3, 3, 4 * ROWS, DEPTH).half()
    found = torch.full((3, 4 * ROWS, DEPTH), float("nan")).half()
    configs = {"tile.persistent": blocks, "tile.emulate_check": True}
    kernel = tl.compile(program, target=SM_90, execution="emulate", pass_configs=configs)
    kernel(a, k, v, torch.zeros(4, dtype=torch.int32), found)
    expected = (a.float() @ k.float().transpose(1, 2) * 0.1).half().float() @ v.float()
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-2)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("kind", "blocks", "few", "least", "launched"),
    [
        ("even", 5, FEW, LEAST_TURNS, [5]),
        ("even", False, FEW, LEAST_TURNS, []),
        ("uneven", 2, 2, LEAST_TURNS, [6]),
        ("panels", 3, 2, LEAST_TURNS, [6]),
        ("atomic", 2, FEW, LEAST_TURNS, []),
        ("even", 5, FEW, 3, [5]),
        ("uneven", 1, FEW, LEAST_TURNS, [1]),
        ("panels", 3, FEW, 4, [3]),
    ],
)
def test_results(
    kind: str, blocks: int, few: int, least: int, launched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks take a number of tiles each, or ask a counter for the next one."""
    monkeypatch.setattr(walk_tiles, "FEW", few)
    monkeypatch.setattr(walk_tiles, "LEAST_TURNS", least)
    rows, heads = 4 * ROWS, 3
    torch.manual_seed(4)
    a, k, v = torch.randn(3, heads, rows, DEPTH).half()
    hits, found = torch.zeros(4, dtype=torch.int32), torch.full((heads, rows, DEPTH), float("nan")).half()
    configs = {"tile.persistent": blocks, "tile.emulate_check": True}
    kernel = tl.compile(two_products(rows, heads, kind), target=SM_90, execution="emulate", pass_configs=configs)
    kernel(a, k, v, hits, found)
    weights = (a.float() @ k.float().transpose(1, 2) * 0.1).half().float()
    if kind in UNEVEN:
        place = torch.arange(rows) // ROWS
        weights = weights * (place[:, None] >= place[None, :])
    torch.testing.assert_close(found.float(), weights @ v.float(), rtol=2e-3, atol=2e-2)
    assert kernel.report()["persistent_blocks"] == launched
    assert hits.tolist() == ([heads] * 4 if kind == "atomic" else [0] * 4)
