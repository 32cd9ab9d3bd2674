"""Large tensors that are loaded once are the first to leave the cache; others only where that is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

SM_90 = {"kind": "cuda", "arch": "sm_90"}
STEP, COLUMNS = 64, 64


def product(rows: int, n: int, k: int, *, bm: int = 16, policy: str | None = None, skip: int = STEP) -> Any:
    """C = A B by blocks of `bm` rows, where a step along K begins `skip` behind the one before."""

    @T.prim_func
    def program(A: T.Tensor((rows, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((rows, n), "float16")):
        with T.Kernel(T.ceildiv(n, COLUMNS), T.ceildiv(rows, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, STEP), "float16")
            b = T.alloc_shared((STEP, COLUMNS), "float16")
            c = T.alloc_fragment((bm, COLUMNS), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, STEP), num_stages=2):
                T.copy(A[by * bm, step * STEP], a)
                T.copy(B[step * skip, bx * COLUMNS], b, eviction_policy=policy)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * COLUMNS])

    return program


@pytest.mark.parametrize(
    ("rows", "n", "k", "skip", "hinted"),
    [
        (16, 8192, 8192, STEP, 1),  # 128 MiB, each byte for one block
        (16, 1024, 1024, STEP, 0),  # a small part of the cache
        (16, 16384, 16384, STEP, 0),  # ten times the cache
        (64, 8192, 8192, STEP, 0),  # read by four rows of blocks
        (16, 8192, 8192, STEP // 2, 0),  # half of a step is read again by the next
    ],
)
def test_what_is_loaded_once(rows: int, n: int, k: int, skip: int, hinted: int) -> None:
    source = tl.compile(product(rows, n, k, skip=skip), target=SM_90).get_kernel_source()
    assert source.count("tile_tma_load_evict_first_2d(&") == hinted
    assert source.count("tile_tma_load_2d(&") == 2 - hinted


def pair(n: int, k: int) -> Any:
    """C = A B + A D: two tensors that are loaded once."""

    @T.prim_func
    def program(
        A: T.Tensor((16, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        D: T.Tensor((k, n), "float16"),
        C: T.Tensor((16, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, COLUMNS), threads=128) as bx:
            a = T.alloc_shared((16, STEP), "float16")
            b, d = T.alloc_shared((STEP, COLUMNS), "float16"), T.alloc_shared((STEP, COLUMNS), "float16")
            c = T.alloc_fragment((16, COLUMNS), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, STEP), num_stages=2):
                T.copy(A[0, step * STEP], a)
                T.copy(B[step * STEP, bx * COLUMNS], b)
                T.copy(D[step * STEP, bx * COLUMNS], d)
                T.gemm(a, b, c)
                T.gemm(a, d, c)
            T.copy(c, C[0, bx * COLUMNS])

    return program


@pytest.mark.parametrize(("k", "hinted"), [(256, 0), (1024, 2), (8192, 0)])
def test_what_a_launch_loads_counts_together(k: int, hinted: int) -> None:
    """4 MiB each drive out little; 16 MiB each are hinted; 128 MiB each are five times the cache."""
    source = tl.compile(pair(8192, k), target=SM_90).get_kernel_source()
    assert source.count("tile_tma_load_evict_first_2d(&") == hinted


@pytest.mark.emulate
@pytest.mark.parametrize("policy", ["evict_first", "evict_last", "evict_normal"])
def test_wishes(policy: str) -> None:
    torch.manual_seed(4)
    a, b = torch.randn(16, 128).half(), torch.randn(128, 128).half()
    c = torch.full((16, 128), float("nan"), dtype=torch.float16)
    kernel = tl.compile(
        product(16, 128, 128, policy=policy),
        target=SM_90,
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    kernel(a, b, c)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    assert kernel.report()["specialized_warps"] == 1
    assert (f"tile_tma_load_{policy}_2d(" in kernel.get_kernel_source()) == (policy != "evict_normal")


def test_a_wish_leaves_the_schedule() -> None:
    """Few blocks walk over a large product, whatever caches are told."""
    program = product(4096, 8192, 256, bm=128, policy="evict_last")
    kernel = tl.compile(program, target=SM_90, pass_configs={"tile.persistent": 128})
    assert kernel.report()["persistent_blocks"] == [128]
