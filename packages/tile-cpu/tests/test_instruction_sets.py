"""The same kernels for every instruction set that this machine can run or emulate."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cpu.compiler import build_module
from tile_cpu.target import parse_target

LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4", "armv8-a")
DOTS = ("armv8.2-a", "armv8.6-a")
"""Levels that add dot products, of int8 and of bfloat16."""
TILES = {"bm": 32, "bn": 48, "bk": 32}


@pytest.mark.parametrize(
    ("dtype", "total"), [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")]
)
@pytest.mark.parametrize("arch", LEVELS + DOTS)
def test_gemm(workloads, level, arch, dtype, total):
    kind = getattr(torch, dtype)
    a, b = (torch.randint(-4, 5, shape).to(kind) for shape in ((70, 77), (77, 90)))
    out = torch.full((70, 90), 99).to(getattr(torch, total))
    tl.compile(workloads.gemm(70, 90, 77, dtype, total, **TILES), target=level(arch))(a, b, out)
    assert torch.equal(out.double(), a.double() @ b.double())


@pytest.mark.parametrize("columns", [1, 5, 64, 203])
@pytest.mark.parametrize("arch", LEVELS)
def test_softmax(workloads, level, arch, columns):
    source, out = torch.randn(7, columns), torch.full((7, columns), 9.0)
    source[3, 0] = float("-inf") if columns > 1 else 0.0
    tl.compile(workloads.softmax(7, columns), target=level(arch))(source, out)
    torch.testing.assert_close(out, source.softmax(1))


@pytest.mark.parametrize(
    ("arch", "dtype", "instruction"),
    [
        ("armv8-a", "float32", "fmla"),
        ("armv8-a", "bfloat16", "fmla"),
        ("armv8-a", "int8", "mla"),
        ("armv8.2-a", "int8", "sdot"),
        ("armv8.6-a", "bfloat16", "bfdot"),
    ],
)
def test_code_for_another_architecture(workloads, arch, dtype, instruction):
    request, total = CompileRequest(parse_target("cpu", {"arch": arch})), "int32" if dtype == "int8" else "float32"
    lowered, _ = lower(workloads.gemm(64, 96, 64, dtype, total, **TILES), request, backend("cpu"))
    assembly = build_module(lowered, request).inspect_source("asm")
    assert f"\t{instruction}\t" in assembly
    assert "bl\tfma" not in assembly
