"""Results that the first product of a pipelined loop begins: only where a loop runs and nothing else touches them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

M, N, STEP, STEPS = 64, 64, 64, 3
BEGINS = ", step == 0 ? 0 : 1)"


def product(kind: str) -> Any:
    """C = start + Σ A_s B_s; `kind` is what differs."""

    @T.prim_func
    def program(
        A: T.Tensor((M, STEPS * STEP), "float16"),
        B: T.Tensor((STEPS * STEP, N), "float16"),
        S: T.Tensor((1,), "int32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, STEP), "float16")
            b = T.alloc_shared((STEP, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.fill(c, 1.0 if kind == "one" else 0.0)
            for step in T.Pipelined(S[0] if kind in ("unknown", "none") else STEPS, num_stages=2):
                T.copy(A[0, step * STEP], a)
                T.copy(B[step * STEP, 0], b)
                if kind == "scaled":
                    for i, j in T.Parallel(M, N):
                        c[i, j] = c[i, j] * 0.5 + 1.0
                T.gemm(a, b, c)
                if kind == "twice":
                    T.gemm(a, b, c)
                if kind == "behind":
                    for i, j in T.Parallel(M, N):
                        c[i, j] = c[i, j] * 0.5 + 1.0
            T.copy(c, C)

    return program


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["plain", "behind", "one", "scaled", "twice", "unknown", "none"])
def test_who_begins(kind: str) -> None:
    torch.manual_seed(3)
    a, b = torch.randn(M, STEPS * STEP).half(), torch.randn(STEPS * STEP, N).half()
    found, expected = (torch.full((M, N), float("nan")) for _ in range(2))
    steps = torch.tensor([0 if kind == "none" else STEPS], dtype=torch.int32)
    target = {"kind": "cuda", "arch": "sm_90"}
    kernel = tl.compile(product(kind), target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(a, b, steps, found)
    tl.compile(product(kind), target="interpret")(a, b, steps, expected)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert kernel.report()["specialized_warps"] == 1
    assert (BEGINS in kernel.get_kernel_source()) == (kind in {"plain", "behind"})
