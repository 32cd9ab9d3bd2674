"""Scans in registers: any row length and number of threads, both directions, sums and maxima."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}


def scan(m: int, n: int, rows: int, threads: int, kind: str, reverse: bool, dtype: str = "int32") -> Any:
    run = {"sum": T.cumsum, "max": T.cummax}[kind]

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, n), dtype)
            y = T.alloc_fragment((rows, n), dtype)
            T.copy(A[bx * rows, 0], x)
            run(x, y, dim=1, reverse=reverse)
            T.copy(y, B[bx * rows, 0])

    return kernel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


# Rows, columns, rows of a block, threads, and whether the tile stays in registers.
SHAPES = [
    (3, 100, 1, 64, True),
    (4, 257, 1, 96, True),
    (2, 1024, 1, 128, True),
    (5, 64, 4, 128, True),
    (4, 130, 2, 64, True),
    (2, 300, 2, 128, True),
    (6, 8, 2, 32, True),
    (3, 37, 1, 33, False),
    (1, 1, 1, 33, False),
    # Two rows take 64 threads each: the last warp has none.
    (2, 513, 2, 160, True),
]


@pytest.mark.emulate
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(("m", "n", "rows", "threads", "in_registers"), SHAPES)
def test_a_scan(m: int, n: int, rows: int, threads: int, in_registers: bool, kind: str, reverse: bool) -> None:
    kernel = tl.compile(
        scan(m, n, rows, threads, kind, reverse),
        target=TARGET,
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    a, b = torch.randint(-9, 9, (m, n), dtype=torch.int32), torch.full((m, n), 99, dtype=torch.int32)
    kernel(a, b)
    ordered = a.flip(1) if reverse else a
    found = ordered.cumsum(1) if kind == "sum" else ordered.cummax(1).values
    assert torch.equal(b, (found.flip(1) if reverse else found).to(torch.int32))
    assert bool(kernel.report()["fragments_in_shared"]) != in_registers


@pytest.mark.emulate
def test_nan_and_infinity_go_as_far_as_they_should() -> None:
    a = torch.ones(2, 256)
    a[0, 100], a[1, 200] = float("nan"), float("-inf")
    b = torch.full((2, 256), 7.0)
    tl.compile(scan(2, 256, 1, 64, "sum", False, "float32"), target=TARGET, execution="emulate")(a, b)
    torch.testing.assert_close(b, a.cumsum(1), equal_nan=True, rtol=0, atol=0)


@pytest.mark.emulate
def test_a_row_of_a_block_waits_once() -> None:
    kernel = tl.compile(scan(2, 4096, 1, 256, "sum", False, "float32"), target=TARGET, execution="emulate")
    assert kernel.report()["barriers"] == 1
