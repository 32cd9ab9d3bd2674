"""Fragments that a nest adds in an order of the author's leave as one run of bytes, where that run has no gaps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}
DEPTH = 192
BULK = "tile_bulk_reduce_add("


def strips(kind: str, columns: int = 32, splits: int = 3) -> Any:
    """C += A @ B by blocks along K, two steps each, in strips of eight columns; D is what `kind` has besides."""

    @T.prim_func
    def program(
        A: T.Tensor((64, DEPTH), "float16"),
        B: T.Tensor((DEPTH, columns), "float16"),
        C: T.Tensor((2, columns // 8, 64, 8), "float32"),
        D: T.Tensor((2, columns // 8, 64, 8), "float32"),
    ):
        with T.Kernel(splits, threads=128) as split:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            c = T.alloc_fragment((64, columns), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, (split * 2 + k) * 32], a)
                T.copy(B[(split * 2 + k) * 32, 0], b)
                T.gemm(a, b, c, clear_accum=True)
                for i, j in T.Parallel(64, columns):
                    if kind == "max":
                        T.atomic_max(C[k, j // 8, i, j % 8], c[i, j])
                    elif kind == "gaps":
                        T.atomic_add(C[k, j // 8, i, j % 4], c[i, j])
                    elif kind == "outside":
                        T.atomic_add(C[k + split, j // 8, i, j % 8], c[i, j])
                    elif kind == "ordered":
                        T.atomic_add(C[k, j // 8, i, j % 8], c[i, j], memory_order="release")
                    elif kind == "computed":
                        T.atomic_add(C[k, j // 8, i, j % 8], c[i, j] * 2)
                    else:
                        T.atomic_add(C[k, j // 8, i, j % 8], c[i, j])
            if kind == "read":
                for i, j in T.Parallel(64, 8):
                    D[0, 0, i, j] = C[0, 0, i, j]

    return program


KINDS = {
    "add": True,
    "max": False,
    "gaps": False,
    "outside": False,
    "ordered": False,
    "computed": False,
    "read": False,
}


@pytest.mark.compile
@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_adds_a_run(kind: str) -> None:
    printed = tl.compile(strips(kind), target=TARGET).get_kernel_source()
    assert (BULK in printed) == KINDS[kind]


@pytest.mark.emulate
def test_sums() -> None:
    columns = 24
    torch.manual_seed(10)
    a, b = torch.randn(64, DEPTH).half(), torch.randn(DEPTH, columns).half()
    c = torch.randn(2, columns // 8, 64, 8)
    parts = [sum(a.float()[:, k : k + 32] @ b.float()[k : k + 32] for k in range(at * 32, DEPTH, 64)) for at in (0, 1)]
    expected = c + torch.stack([part.reshape(64, columns // 8, 8).transpose(0, 1) for part in parts])
    kernel = tl.compile(
        strips("add", columns), target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True}
    )
    assert BULK in kernel.get_kernel_source()
    kernel(a, b, c, torch.empty_like(c))
    torch.testing.assert_close(c, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.compile
def test_it_compiles() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    kernel = tl.compile(strips("add", 128), target=TARGET).report()["kernels"][0]
    assert (kernel["spilled_bytes"], kernel["remarks"]) == (0, [])
