"""Tiles that only products read are rounded by one instruction; what else is read keeps its subnormal numbers."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cpu.llvm.features import cpu_facts, host_target

ROUNDING = "tile_round_factors"
HAS_IT = cpu_facts(*host_target()).bf16_dot


def program(rows: int, depth: int, also: str = ""):
    """X, rounded to bfloat16, times W; `also` says what else the rounded tile is used for, with its values in Seen."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, depth), "float32"),
        W: T.Tensor((depth, 32), "bfloat16"),
        Out: T.Tensor((rows, 32), "float32"),
        Seen: T.Tensor((rows, depth), "float32"),
    ):
        with T.Kernel(1):
            x = T.alloc_fragment((rows, depth), "float32")
            p = T.alloc_shared((rows, depth), "bfloat16")
            w = T.alloc_shared((depth, 32), "bfloat16")
            out = T.alloc_fragment((rows, 32), "float32")
            T.copy(X, x)
            T.copy(W, w)
            T.copy(x, p)
            if also == "copied":
                T.copy(p, Seen)
            elif also == "loaded":
                for i, j in T.Parallel(rows, depth):
                    Seen[i, j] = T.cast(p[i, j], "float32")
            elif also == "changed":
                for i, j in T.Parallel(rows, depth):
                    p[i, j] = T.cast(x[i, j] * -1.0, "bfloat16")
            T.gemm(p, w, out, clear_accum=True)
            T.copy(out, Out)

    return kernel


def numbers(rows: int, depth: int) -> torch.Tensor:
    """Random numbers, ties, subnormal numbers, zeros and what is not finite."""
    x = torch.randn(rows, depth)
    special = [1e-40, -3e-39, 1.1754942e-38, 0.0, -0.0, 1.00390625, -1.01171875, 3.4e38]
    for at, value in enumerate(special):
        x[at % rows, (7 * at) % depth] = value
    x[rows // 2, depth // 2], x[rows - 1, 0] = torch.nan, torch.inf
    return x


@pytest.mark.parametrize(("rows", "depth"), [(16, 64), (17, 48), (5, 33)])
@pytest.mark.parametrize("also", ["", "changed"])
def test_only_multiplied(rows: int, depth: int, also: str) -> None:
    kernel = tl.compile(program(rows, depth, also), target="cpu")
    assert (ROUNDING in kernel.get_kernel_source()) == HAS_IT
    torch.manual_seed(rows)
    x, w, out = numbers(rows, depth), torch.randn(depth, 32).bfloat16(), torch.full((rows, 32), 99.0)
    kernel(x, w, out, torch.zeros(rows, depth))
    factor = (-x if also else x).bfloat16().double()
    factor = torch.where(factor.abs() < torch.finfo(torch.bfloat16).tiny, 0.0, factor)
    torch.testing.assert_close(out.double(), factor @ w.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("also", ["copied", "loaded"])
def test_what_else_is_read_keeps_every_number(also: str) -> None:
    kernel = tl.compile(program(16, 64, also), target="cpu")
    assert ROUNDING not in kernel.get_kernel_source()
    x, w, seen = numbers(16, 64), torch.randn(64, 32).bfloat16(), torch.full((16, 64), 99.0)
    kernel(x, w, torch.zeros(16, 32), seen)
    torch.testing.assert_close(seen, x.bfloat16().float(), rtol=0, atol=0, equal_nan=True)
    assert float(seen[0, 0]) != 0


def test_a_cpu_without_the_instruction() -> None:
    kernel = tl.compile(program(16, 64), target={"kind": "cpu", "arch": "x86-64-v4"})
    assert ROUNDING not in kernel.get_kernel_source()
