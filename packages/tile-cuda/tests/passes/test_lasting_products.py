"""A product stays in flight over the end of an iteration if the next one issues another before it needs the result."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}
STEPS = 4


def chain(kind: str, outer: int = 1, threads: int = 128) -> Any:
    """O += half(A @ Bₖᵀ) @ Bₖ over the blocks of B, `outer` times; `kind` says what else the loop does."""
    rows = threads // 2

    @T.prim_func
    def program(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((STEPS * 64, 64), "float16"),
        Count: T.Tensor((1,), "int32"),
        O: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((rows, 64), "float16"), T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((rows, 64), "float32")
            half = T.alloc_fragment((rows, 64), "float16")
            out = T.alloc_fragment((rows, 64), "float32")
            T.copy(A, a)
            T.clear(out)
            for _turn in T.serial(outer):
                for step in T.Pipelined(Count[0] if kind == "counted" else STEPS, num_stages=2):
                    T.copy(B[step * 64, 0], b)
                    T.gemm(a, b, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(scores, half)
                    T.gemm(half, b, out, policy=T.GemmWarpPolicy.FullRow)
                    if kind == "used":
                        for i, j in T.Parallel(rows, 64):
                            out[i, j] = out[i, j] * 0.5
            T.copy(out, O)

    return program


def inside(source: str) -> str:
    """The pipelined loop of the threads that multiply."""
    found = re.search(r"\n( *)for \(int step = .*?\n\1\}", source, re.DOTALL)
    assert found is not None
    return found[0]


def expected(a: torch.Tensor, b: torch.Tensor, kind: str, turns: int) -> torch.Tensor:
    out = torch.zeros(a.shape[0], 64)
    for step in range(STEPS * turns):
        part = b[step % STEPS * 64 : step % STEPS * 64 + 64].float()
        out += (a.float() @ part.T).half().float() @ part
        out *= 0.5 if kind == "used" else 1
    return out


@pytest.mark.emulate
@pytest.mark.parametrize(("kind", "outer", "lasts"), [("plain", 3, True), ("used", 1, False), ("counted", 1, False)])
def test_a_product_lasts(kind: str, outer: int, lasts: bool) -> None:
    torch.manual_seed(11)
    a, b = torch.randn(64, 64).half() / 8, torch.randn(STEPS * 64, 64).half()
    out = torch.full((64, 64), float("nan"))
    program = chain(kind, outer)
    kernel = tl.compile(program, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(a, b, torch.tensor([STEPS], dtype=torch.int32), out)
    torch.testing.assert_close(out, expected(a, b, kind, outer), rtol=1e-3, atol=1e-2)
    loop = inside(kernel.get_kernel_source())
    ends_in_flight = loop.rindex("wgmma_commit") > loop.rindex("wgmma_wait")
    assert ends_in_flight == lasts


@pytest.mark.compile
def test_it_stays_in_flight() -> None:
    """Of two groups of threads; ptxas lets it."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    found = tl.compile(chain("plain", threads=256), target=TARGET)
    loop = inside(found.get_kernel_source())
    assert loop.rindex("wgmma_commit") > loop.rindex("wgmma_wait"), "the last product is waited for in its iteration"
    assert (found.report()["kernels"][0]["spilled_bytes"], found.report()["kernels"][0]["remarks"]) == (0, [])
