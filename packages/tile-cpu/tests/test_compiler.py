"""From a program to an object file: the same every time, in linear time, and nothing forgotten on the way."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_cpu import compiler, target

HERE = CompileRequest(target.parse_target("cpu", {}))


def matmul(dtype: str = "float32") -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((100, 50), dtype), B: T.Tensor((50, 70), dtype), C: T.Tensor((100, 70), "float32")):
        with T.Kernel(T.ceildiv(70, 32), T.ceildiv(100, 32)) as (bx, by):
            a, b = T.alloc_shared((32, 16), dtype), T.alloc_shared((16, 32), dtype)
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(50, 16), num_stages=2):
                T.copy(A[by * 32, k * 16], a)
                T.copy(B[k * 16, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_program_gives_the_same_bytes(dtype: str) -> None:
    first, second = (compiler.compile_program(matmul(dtype), HERE) for _ in range(2))
    assert first.files == second.files
    assert first.report == second.report


def test_an_artifact_is_bytes_and_json() -> None:
    import json

    artifact = compiler.compile_program(matmul(), HERE)
    assert all(isinstance(content, bytes) for content in artifact.files.values())
    assert json.loads(json.dumps(dict(artifact.report))) == dict(artifact.report)
    assert "def kernel" in artifact.kernel_source
    assert {"guards", "shared_bytes", "tiles", "grid"} <= artifact.report.keys()


def chain(length: int, dtype: str) -> Any:
    """Names that use the one before twice: 2^length nodes if names were replaced by their values."""
    steps = list(range(length))

    @T.prim_func
    def kernel(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1):
            for i in T.serial(64):
                x = A[i]
                for _ in steps:
                    x = x * x + x
                B[i] = x

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "uint32", "int32", "bfloat16"])
def test_chains_of_names_compile_in_linear_time(dtype: str) -> None:
    started = time.perf_counter()
    run = tl.compile(chain(40, dtype), target="cpu")
    assert time.perf_counter() - started < 20
    kind = getattr(torch, dtype)
    a, b = torch.zeros(64, dtype=kind), torch.ones(64, dtype=kind)
    run(a, b)
    assert torch.equal(b, a)


def test_integer_chains_compute_what_numpy_computes() -> None:
    a, b = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    tl.compile(chain(12, "uint32"), target="cpu")(a, b)
    x = a.copy()
    for _ in range(12):
        x = x * x + x
    assert np.array_equal(b, x)


@pytest.mark.parametrize("serial", [True, False])
def test_chains_of_conditions_compile_in_linear_time(serial: bool) -> None:
    steps = list(range(40))
    loop = T.serial if serial else T.Parallel

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "bool")):
        with T.Kernel(1):
            for i in loop(64):
                x = A[i] > 0.0
                for step in steps:
                    x = (x & (A[i] > -1.0 - step)) | (x & (A[i] < 9.0))
                B[i] = x

    started = time.perf_counter()
    run = tl.compile(kernel, target="cpu")
    assert time.perf_counter() - started < 20
    a, b = torch.randn(64), torch.zeros(64, dtype=torch.bool)
    run(a, b)
    assert torch.equal(b, a > 0)


def test_nested_divisions_compile_in_linear_time() -> None:
    def nested(x: Any, depth: int) -> Any:
        return x if depth == 0 else nested(x, depth - 1) // 3 + nested(x, depth - 1) % 5

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = nested(A[i], 6)

    a, b = np.arange(-32, 32, dtype=np.int32) * 1001, np.zeros(64, np.int32)
    started = time.perf_counter()
    tl.compile(kernel, target="cpu")(a, b)
    assert time.perf_counter() - started < 20
    assert np.array_equal(b, nested(a, 6))


def test_nested_choices_evaluate_one_side() -> None:
    """A load in a side that is not taken is not performed, however deep it stands."""
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.serial(64):
                B[i] = T.if_then_else(i < n, T.max(A[i], T.if_then_else(i > 0, T.max(A[i - 1], 0.0), 5.0)), -1.0)

    a, b = torch.randn(40), torch.zeros(64)
    tl.compile(kernel, target="cpu")(a, b)
    before = torch.cat([torch.tensor([5.0]), a[:-1].clamp(min=0)])
    assert torch.equal(b, torch.cat([torch.maximum(a, before), torch.full((24,), -1.0)]))
