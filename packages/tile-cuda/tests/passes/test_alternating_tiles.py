"""A tile that a block widens for a product has two versions, so that the product before may still read the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.testing.programs.gemm import matmul
from tile_core.testing.programs.narrow import values

TARGET = {"kind": "cuda", "arch": "sm_90"}


def repeated(steps: int, turns: int, threads: int, a_dtype: str, b_dtype: str) -> Any:
    """C = turns * A B, `steps` blocks of 64 along K."""
    rows = threads // 2

    @T.prim_func
    def program(
        A: T.Tensor((rows, steps * 64), a_dtype),
        B: T.Tensor((32, steps * 64), b_dtype),
        C: T.Tensor((rows, 32), "int32"),
    ):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((rows, 64), a_dtype), T.alloc_shared((32, 64), b_dtype)
            c = T.alloc_fragment((rows, 32), "int32")
            T.clear(c)
            for _turn in T.serial(turns):
                for step in T.Pipelined(steps, num_stages=2):
                    T.copy(A[0, step * 64], a)
                    T.copy(B[0, step * 64], b)
                    T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return program


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("steps", "turns", "threads", "dtypes"),
    [(3, 1, 256, ("int4", "int4")), (3, 2, 256, ("uint4", "int4")), (1, 3, 128, ("uint4", "uint4"))],
)
def test_products_run_beside_the_next_widening(steps: int, turns: int, threads: int, dtypes: tuple[str, str]) -> None:
    func = repeated(steps, turns, threads, *dtypes)
    kernel = tl.compile(func, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b = (torch.randint(-128, 128, (rows, steps * 32), dtype=torch.int8) for rows in (threads // 2, 32))
    c = torch.full((threads // 2, 32), 7, dtype=torch.int32)
    kernel(a, b, c)
    assert "wgmma_wait<1>" in kernel.get_kernel_source()
    expected = turns * values(a, dtypes[0]) @ values(b, dtypes[1]).T
    assert torch.equal(c, expected.to(torch.int32))


@pytest.mark.compile
@pytest.mark.parametrize(("depth", "waits"), [(128, "tile_wgmma_wait_1"), (256, "tile_wgmma_wait_0")])
def test_both_versions_have_to_fit(depth: int, waits: str) -> None:
    """Of 128 + 256 lines they are 96 KiB with K of 128, and 192 KiB with 256, beside rings of half as much."""
    func = matmul(256, 512, 1024, 128, 256, depth, dtype="int4", accum="int32", trans_b=True, stages=2, threads=256)
    kernel = tl.compile(func, target=TARGET)
    assert f"{waits}()" in kernel.get_kernel_source().split("kernel_1_kernel")[0]
    (first, *_others) = kernel.report()["kernels"]
    assert first["spilled_bytes"] == 0
