"""Tensors that begin anywhere, and loads that begin between two vectors: right, and never beyond the tensor.

Checked runs refuse a vector access at an address that is no multiple of its size, so they tell which kernel ran.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}
PAGE = mmap.PAGESIZE

pytestmark = pytest.mark.emulate


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def compiled(program: Any, *, check: bool = True) -> Any:
    return tl.compile(program, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": check})


def moved(n: int, first: int, dtype: str) -> Any:
    """B = A without its first elements."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n - first,), dtype)):
        with T.Kernel(T.ceildiv(n, 256), threads=32) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i + first]

    return kernel


def values(count: int, dtype: str) -> torch.Tensor:
    return torch.randint(-100, 100, (count,)).to(getattr(torch, dtype))


def test_each_launch_has_a_kernel_for_aligned_tensors_and_one_for_others() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((512,), "float16"), B: T.Tensor((512,), "float16"), C: T.Tensor((512,), "float16")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(512):
                B[i] = A[i] * 2
        with T.Kernel(1, threads=32):
            for i in T.Parallel(512):
                C[i] = B[i] + A[i]

    run = compiled(kernel)
    assert run.report()["aligned_launches"] == 2
    a, b, c = (values(513, "float16") for _ in range(3))
    for firsts in ((0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 1, 1)):
        given = [tensor[first : first + 512] for tensor, first in zip((a, b, c), firsts, strict=True)]
        run(*given)
        assert torch.equal(given[1], given[0] * 2)
        assert torch.equal(given[2], given[0] * 3)


def test_a_launch_without_vectors_has_one_kernel() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = 1.0

    run = compiled(kernel, check=False)
    assert run.report()["aligned_launches"] == 0
    assert run.get_kernel_source().count("__global__") == 1


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("dtype", "first"), [("float16", 1), ("bfloat16", 7), ("float32", 2), ("int32", 3)])
def test_vectors_come_out_of_two(dtype: str, first: int, check: bool) -> None:
    n = 1003
    run = compiled(moved(n, first, dtype), check=check)
    if not check:
        assert "= tile_load_shifted<uint4>(&A[" in run.get_kernel_source()
    for start in (0, 1):
        a, b = values(n + 1, dtype)[start : start + n], torch.full((n - first,), 7).to(getattr(torch, dtype))
        run(a, b)
        assert torch.equal(b, a[first:])


def test_rows_and_a_weight_that_are_aligned_differently() -> None:
    m, n = 9, 515

    @T.prim_func
    def kernel(X: T.Tensor((m, n), "int8"), W: T.Tensor((n,), "int8"), Y: T.Tensor((m, n), "int8")):
        with T.Kernel(m, threads=32) as row:
            for j in T.Parallel(n):
                Y[row, j] = X[row, j] + W[j]

    run = compiled(kernel, check=False)
    assert "= tile_load_shifted<uint4>(&W[" in run.get_kernel_source()
    x, w, y = values(m * n, "int8").view(m, n), values(n, "int8"), torch.zeros(m, n, dtype=torch.int8)
    run(x, w, y)
    assert torch.equal(y, x + w)


def test_nothing_is_read_beyond_a_tensor() -> None:
    """The tensor ends where a page begins that nobody may access."""
    n, first = 1000, 3
    pages = mmap.mmap(-1, 2 * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(begin + PAGE), PAGE, 0) == 0
    a = torch.frombuffer(pages, dtype=torch.float16, count=n, offset=PAGE - 2 * n)
    a.copy_(values(n, "float16"))
    b = torch.full((n - first,), 7, dtype=torch.float16)
    compiled(moved(n, first, "float16"), check=False)(a, b)
    assert torch.equal(b, a[first:])
