"""Atomic operations: by instructions, by compare-and-swap, and those that Metal lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import UnprintableError

N, PLACES = 96, 5
DTYPES = ("int8", "uint8", "int16", "float16", "bfloat16", "int32", "uint32", "float32")
INSTRUCTIONS = {"int32": "atomic_int", "uint32": "atomic_uint"}


def updates(dtype: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), Out: T.Tensor((3, PLACES), dtype)):
        with T.Kernel(1, threads=N):
            sums = T.alloc_shared((PLACES,), dtype)
            T.clear(sums)
            for i in T.Parallel(N):
                T.atomic_add(sums[i % PLACES], A[i])
                T.atomic_max(Out[1, i % PLACES], A[i])
                T.atomic_min(Out[2, i % PLACES], A[i])
            for i in T.Parallel(PLACES):
                T.atomic_add(Out[0, i], sums[i])

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_of_up_to_four_bytes(dtype: str) -> None:
    options = {"target": "metal", "execution": "emulate", "pass_configs": {"tile.emulate_check": True}}
    kernel = tl.compile(updates(dtype), **options)
    kind = getattr(torch, dtype)
    a = torch.randint(0, 5, (N,)).to(kind)
    out = torch.tensor([[0], [1], [3]]).expand(3, PLACES).contiguous().to(kind)
    kernel(a, out)
    columns = [a[place::PLACES].to(torch.int64) for place in range(PLACES)]
    expected = [[int(part.sum()) for part in columns], [max(1, int(part.max())) for part in columns]]
    expected.append([min(3, int(part.min())) for part in columns])
    assert out.to(torch.int64).tolist() == expected
    source = kernel.get_kernel_source()
    word = INSTRUCTIONS.get(dtype)
    assert (f"threadgroup {word}*" in source) == (word is not None)
    assert ("device atomic_float*" in source) == (dtype == "float32")
    assert ("tile_atomic_swap<threadgroup atomic_uint, tile_atomic_add, " in source) == (word is None)


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float32", "uint32", "float16", "bfloat16", "int8"])
def test_loads_and_stores(dtype: str) -> None:
    a, b = torch.randint(-90, 90, (N,)).to(getattr(torch, dtype)), torch.zeros(N, dtype=getattr(torch, dtype))
    tl.compile(words(dtype), target="metal", execution="emulate")(a, b)
    assert torch.equal(b.double(), a.double().flip(0))


def words(dtype: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            T.atomic_store(B[N - 1 - t], T.atomic_load(A[t], memory_order="relaxed"), memory_order="relaxed")

    return kernel


@pytest.mark.compile
@pytest.mark.parametrize("dtype", DTYPES)
def test_clang_reads_it(dtype: str, read: Callable[[str], None]) -> None:
    for kernel in (updates(dtype), words(dtype)):
        read(tl.compile(kernel, target="metal").get_kernel_source())


@pytest.mark.parametrize("execution", ["native", "emulate"])
@pytest.mark.parametrize(("dtype", "order", "why"), [("int64", None, "64 bits"), ("int32", "release", "orders other")])
def test_what_metal_lacks_is_refused(execution: Any, dtype: str, order: str | None, why: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            T.atomic_add(A[t], 1, memory_order=order)

    with pytest.raises(UnprintableError, match=why) as raised:
        tl.compile(kernel, target="metal", execution=execution)
    assert raised.value.span is not None
