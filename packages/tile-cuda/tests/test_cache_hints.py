"""`T.copy(…, eviction_policy=…)`: loads that tell caches how long to keep a tensor, with the same results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors.ops import OpArgumentError
from tile_cuda import nvrtc

TARGET = {"kind": "cuda", "arch": "sm_90"}


def doubled(m: int, n: int, policy: str | None, dtype: str = "float16") -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=64) as row:
            a = T.alloc_fragment((n,), dtype)
            T.copy(A[row, :], a, eviction_policy=policy)
            for j in T.Parallel(n):
                C[row, j] = a[j] + B[j]

    return kernel


@pytest.mark.parametrize("policy", ["evict_first", "evict_last"])
def test_vectors_of_the_tensor_are_loaded_with_the_hint(policy):
    source = tl.compile(doubled(4, 512, policy), target=TARGET).kernel_source
    assert f"tile_load_{policy}<uint4>(&A[" in source
    assert f"createpolicy.fractional.L2::{policy}.b64" in source
    assert "<const uint4*>(&B[" in source


@pytest.mark.parametrize("policy", [None, "evict_normal"])
def test_no_hint_no_instruction(policy):
    assert "createpolicy" not in tl.compile(doubled(4, 512, policy), target=TARGET).kernel_source


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_compiles_for(arch):
    kernel = tl.compile(doubled(4, 512, "evict_last"), target={"kind": "cuda", "arch": arch.rstrip("a")})
    assert nvrtc.compile_cubin(kernel.kernel_source, arch, "hinted")


@pytest.mark.parametrize("n", [512, 509, 8])
@pytest.mark.parametrize("target", ["cpu", "interpret", "cuda", "rocm"])
def test_results_are_those_without(target, n):
    execution = "emulate" if target in ("cuda", "rocm") else None
    kernel = tl.compile(doubled(4, n, "evict_last"), target=target, execution=execution)
    a, b, c = torch.randn(4, n).half(), torch.randn(n).half(), torch.full((4, n), torch.nan).half()
    kernel(a, b, c)
    assert torch.equal(c, a + b)


def test_refuses_what_is_no_policy_and_two_for_one_tensor():
    with pytest.raises(OpArgumentError, match="evict_sometimes"):
        doubled(4, 8, "evict_sometimes")

    with pytest.raises(OpArgumentError, match="another copy"):

        @T.prim_func
        def two(A: T.Tensor((8,), "float16"), B: T.Tensor((8,), "float16")):
            with T.Kernel(1, threads=32):
                a = T.alloc_fragment((8,), "float16")
                T.copy(A, a, eviction_policy="evict_last")
                T.copy(A, a, eviction_policy="evict_first")
                T.copy(a, B)


def test_a_tensor_that_is_written_is_loaded_plainly():
    @T.prim_func
    def kernel(A: T.Tensor((512,), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((512,), "float16")
            T.copy(A, a, eviction_policy="evict_last")
            T.copy(a, A)

    assert "tile_load_evict" not in tl.compile(kernel, target=TARGET).kernel_source
