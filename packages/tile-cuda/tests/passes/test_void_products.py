"""Products that add nothing in the first iteration of a pipeline are left out there, and only where that is proved."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

ROWS, STEP, DEPTH, STEPS = 64, 64, 64, 3
PEELED = "for (int step = 1; step < "


def late(kind: str) -> Any:
    """R = start + Σ half(0.1 · A K_sᵀ) V_s, multiplied one step late; `kind` is what differs."""
    shift = 0 if kind == "inside" else 1
    start = 1.0 if kind == "result" else 0.0

    @T.prim_func
    def program(
        A: T.Tensor((ROWS, DEPTH), "float16"),
        K: T.Tensor((STEPS * STEP, DEPTH), "float16"),
        V: T.Tensor((STEPS * STEP, DEPTH), "float16"),
        N: T.Tensor((1,), "int32"),
        R: T.Tensor((ROWS, DEPTH), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((ROWS, DEPTH), "float16")
            k = T.alloc_shared((STEP, DEPTH), "float16")
            v = T.alloc_shared((STEP, DEPTH), "float16")
            last = T.alloc_shared((STEP, DEPTH), "float16")
            scores = T.alloc_fragment((ROWS, STEP), "float32")
            weights = T.alloc_fragment((ROWS, STEP), "float16")
            result = T.alloc_fragment((ROWS, DEPTH), "float32")
            T.copy(A, a)
            T.fill(result, start)
            T.fill(weights, 0.5 if kind == "weights" else 0.0)
            for step in T.Pipelined(N[0] if kind == "unknown" else STEPS, num_stages=2):
                T.copy(K[step * STEP, 0], k)
                T.gemm(a, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                if kind == "named":
                    behind = step * STEP
                    row = T.if_then_else(step > 0, behind - STEP, -STEP)
                else:
                    row = (step - shift) * STEP
                T.copy(V[row : row + STEP, :], v)
                T.gemm(weights, v, result, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(ROWS, STEP):
                    weights[i, j] = scores[i, j] * 0.1
            T.copy(V[(STEPS - 1) * STEP, 0], last)
            T.gemm(weights, last, result, policy=T.GemmWarpPolicy.FullRow)
            T.copy(result, R)

    return program


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["late", "named", "inside", "weights", "result", "unknown"])
def test_first_products(kind: str) -> None:
    torch.manual_seed(2)
    a, k, v = torch.randn(ROWS, DEPTH).half(), *torch.randn(2, STEPS * STEP, DEPTH).half()
    found, expected = (torch.full((ROWS, DEPTH), float("nan")) for _ in range(2))
    count = torch.tensor([STEPS], dtype=torch.int32)
    target = {"kind": "cuda", "arch": "sm_90"}
    kernel = tl.compile(late(kind), target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(a, k, v, count, found)
    tl.compile(late(kind), target="interpret")(a, k, v, count, expected)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert kernel.report()["specialized_warps"] == 1
    assert (PEELED in kernel.get_kernel_source()) == (kind in {"late", "named"})
