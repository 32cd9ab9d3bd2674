"""What a CPU lacks is in the report, and the kernel computes the same without it."""

from __future__ import annotations

import platform
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cpu.target import missing_here, parse_target


def product(dtype: str, total: str, size: int = 64) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((size, size), dtype), B: T.Tensor((size, size), dtype), C: T.Tensor((size, size), total)):
        with T.Kernel(1):
            a = T.alloc_shared((size, size), dtype)
            b = T.alloc_shared((size, size), dtype)
            c = T.alloc_fragment((size, size), total)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    return kernel


def target(arch: str) -> Any:
    if platform.machine() != "x86_64" or missing_here(parse_target("cpu", {"arch": arch})):
        pytest.skip(f"this machine does not run {arch}")
    return {"kind": "cpu", "arch": arch}


@pytest.mark.parametrize(
    ("dtype", "total", "lacks"),
    [
        ("bfloat16", "float32", "bfloat16"),
        ("int8", "int32", "int8"),
        ("uint8", "int32", "int8"),
        ("float32", "float32", ""),
    ],
)
def test_products_without_dot_instructions(dtype: str, total: str, lacks: str) -> None:
    kernel = tl.compile(product(dtype, total), target=target("x86-64-v3"))
    rows = kernel.report()["fallbacks"]
    assert [row["lacks"] for row in rows] == ([f"dot products of {lacks}"] if lacks else [])
    assert all(row["operation"] == f"gemm of {dtype}" and row["line"] > 0 for row in rows)
    assert not lacks or f"dot products of {lacks}" in str(kernel.report())
    a, b = (torch.randint(0, 5, (64, 64)).to(getattr(torch, dtype)) for _ in range(2))
    c = torch.full((64, 64), 99).to(getattr(torch, total))
    kernel(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double())


def test_functions_without_a_fused_multiply_add() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(100):
                A[i] = T.exp(A[i]) + T.exp(A[i] * 2.0)

    compiled = tl.compile(kernel, target=target("x86-64"))
    (row,) = compiled.report()["fallbacks"]
    assert (row["operation"], row["lacks"]) == ("exp", "a fused multiply-add")
    a = torch.randn(100)
    expected = a.exp() + (a * 2).exp()
    compiled(a)
    torch.testing.assert_close(a, expected)


def test_a_cpu_that_has_all_of_it() -> None:
    kernel = tl.compile(
        product("bfloat16", "float32"), target={"kind": "cpu", "arch": "x86-64", "cpu": "sapphirerapids"}
    )
    assert kernel.report()["fallbacks"] == []
