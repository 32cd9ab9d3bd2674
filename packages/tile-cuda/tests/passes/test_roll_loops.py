"""Fragments that no thread has the registers for: in local memory, by loops that stay loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

SM_90 = {"kind": "cuda", "arch": "sm_90"}
ROLLED = "#pragma unroll 1\n"


def shifted_rows(rows: int, columns: int, threads: int = 32) -> Any:
    """B = exp(A - sums of A's rows)."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment((rows, columns), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, sums, dim=1)
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = T.exp(tile[i, j] - sums[i])
            T.copy(tile, B)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(("shape", "in_local"), [((64, 160), ["tile"]), ((63, 161), ["tile"]), ((16, 160), [])])
def test_results(shape: tuple[int, int], in_local: list[str]) -> None:
    configs = {"tile.emulate_check": True}
    kernel = tl.compile(shifted_rows(*shape), target=SM_90, execution="emulate", pass_configs=configs)
    assert kernel.report()["fragments_in_local"] == in_local
    assert (ROLLED in kernel.get_kernel_source()) == bool(in_local)
    a, b = torch.randn(shape) * 0.1, torch.full(shape, float("nan"))
    a[3, 5] = float("-inf")
    kernel(a, b)
    torch.testing.assert_close(b, torch.exp(a - a.sum(1, keepdim=True)), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_it_compiles(build: Any) -> None:
    """What took minutes: 2048 registers a thread."""
    assert ROLLED in build(shifted_rows(512, 512, threads=128), ("sm_90",))
