"""Tiles that the blocks of a cluster load for each other: right in every order, and not where blocks may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_cuda.language as T
from tile_cuda.target import detect

SM_90 = {"kind": "cuda", "arch": "sm_90"}


@dataclass(frozen=True)
class Case:
    """One product of fp16 matrices by blocks in clusters."""

    size: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: tuple[str, ...]
    transpose_a: bool = False
    transpose_b: bool = False
    stages: int = 3
    threads: int = 128
    panel: int = 0
    order: str = "row"

    def __str__(self) -> str:
        names = ("x".join(map(str, each)) for each in (self.size, self.block, self.cluster))
        marks = "".join("NT"[flag] for flag in (self.transpose_a, self.transpose_b))
        return f"{'-'.join(names)}-{marks}-s{self.stages}-p{self.panel}{self.order[0]}"


def product(case: Case) -> Any:
    """C = op(A) op(B)."""
    (m, n, k), (bm, bn, bk) = case.size, case.block
    ta, tb = case.transpose_a, case.transpose_b

    @T.prim_func
    def program(
        A: T.Tensor((k, m) if ta else (m, k), "float16"),
        B: T.Tensor((n, k) if tb else (k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=case.threads, cluster_dims=case.cluster) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), "float16")
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            if case.panel:
                T.use_swizzle(case.panel, order=case.order)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=case.stages):
                if ta:
                    T.copy(A[step * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, step * bk], a)
                if tb:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * bm, bx * bn])

    return program


def check(program: Any, shared: tuple[str, ...], m: int, n: int, k: int, flip: tuple[bool, bool]) -> None:
    """Emulated with checks, and on a GPU where there is one, against float64."""
    torch.manual_seed(0)
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    left, right = (a.T if flip[0] else a).contiguous(), (b.T if flip[1] else b).contiguous()
    expected = a.double() @ b.double()
    c = torch.full((m, n), float("nan"))
    kernel = tl.compile(program, target=SM_90, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(left, right, c)
    assert tuple(kernel.report()["shared_by_clusters"]) == shared
    torch.testing.assert_close(c.double(), expected, rtol=1e-3, atol=1e-3 * max(1, k) ** 0.5)
    if detect().available:
        c = torch.full((m, n), float("nan"), device="cuda")
        tl.compile(program, target="cuda")(left.cuda(), right.cuda(), c)
        torch.testing.assert_close(c.cpu().double(), expected, rtol=1e-3, atol=1e-3 * max(1, k) ** 0.5)


CASES = [
    *(
        Case((128, 128, 200), (64, 64, 64), (1, 2, 1), ("b",), transpose_a=ta, transpose_b=tb)
        for ta in (False, True)
        for tb in (False, True)
    ),
    *(
        Case((128, 256, 136), (64, 64, 64), (2, 1, 1), ("a",), transpose_a=ta, transpose_b=tb, panel=1)
        for ta in (False, True)
        for tb in (False, True)
    ),
    Case((250, 256, 136), (64, 128, 64), (1, 4, 1), ("b",), stages=2),
    Case((192, 512, 72), (64, 128, 32), (4, 1, 1), ("a",), panel=2),
    Case((384, 192, 72), (64, 64, 32), (1, 2, 1), ("b",), panel=4, stages=1),
    Case((384, 384, 72), (64, 64, 32), (1, 2, 1), ("b",), panel=3, order="column"),
    Case((384, 384, 72), (64, 64, 32), (2, 1, 1), ("a",), panel=4, order="column"),
    Case((256, 64, 136), (128, 64, 64), (1, 2, 1), ("b",), threads=256, stages=4),
    Case((128, 64, 0), (64, 64, 64), (1, 2, 1), ("b",)),
    Case((128, 40, 64), (64, 40, 32), (1, 2, 1), ("b",), transpose_b=False),
]


@pytest.mark.emulate
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case: Case) -> None:
    m, n, k = case.size
    check(product(case), case.shared, m, n, k, (case.transpose_a, case.transpose_b))


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["bound", "condition", "place"])
def test_blocks_that_may_differ_share_nothing(kind: str) -> None:
    """Another number of iterations, or another tile, in each block of the cluster."""

    @T.prim_func
    def program(
        A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, 2, threads=128, cluster_dims=(1, 2, 1)) as (_bx, by):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            first = by if kind == "bound" else 0
            T.clear(c)
            if kind != "condition" or by == 0:
                for step in T.Pipelined(2 - first, num_stages=2):
                    at = (step + by) % 2 if kind == "place" else step
                    T.copy(A[by * 64, at * 64], a)
                    T.copy(B[at * 64, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * 64, 0])

    torch.manual_seed(0)
    a, b = torch.randn(128, 128).half(), torch.randn(128, 64).half()
    c = torch.full((128, 64), float("nan"))
    kernel = tl.compile(program, target=SM_90, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(a, b, c)
    assert kernel.report()["specialized_warps"] == 1
    assert kernel.report()["shared_by_clusters"] == []
    expected = a.double() @ b.double()
    if kind == "bound":
        expected[64:] = a[64:, :64].double() @ b[:64].double()
    if kind == "condition":
        expected[64:] = 0
    torch.testing.assert_close(c.double(), expected, rtol=1e-3, atol=1e-2)


@pytest.mark.emulate
def test_a_pipeline_that_another_loop_repeats() -> None:
    @T.prim_func
    def program(
        A: T.Tensor((256, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((256, 128), "float32")
    ):
        with T.Kernel(1, 2, threads=128, cluster_dims=(1, 2, 1)) as (_bx, by):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for turn in T.serial(4):
                T.clear(c)
                for step in T.Pipelined(2, num_stages=3):
                    T.copy(A[(turn // 2 * 2 + by) * 64, step * 64], a)
                    T.copy(B[step * 64, turn % 2 * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, C[(turn // 2 * 2 + by) * 64, turn % 2 * 64])

    check(program, ("b",), 256, 128, 128, (False, False))


def test_it_compiles() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(product(CASES[0]), target=SM_90).get_kernel_source()
    assert "tile_tma_load_multicast_2d(&b[" in source
    assert "tile_tma_load_2d(&a[" in source
