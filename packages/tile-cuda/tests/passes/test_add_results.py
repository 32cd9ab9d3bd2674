"""Results that are added to a tensor leave through the copy engine where nothing else touches the tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}
ROWS, DEPTH, COLUMNS = 150, 192, 128


def split_product(kind: str) -> Any:
    """C += A @ B by three blocks along K for each 64 rows, a step at a time; D is what `kind` has besides."""

    @T.prim_func
    def program(
        A: T.Tensor((ROWS, DEPTH), "float16"),
        B: T.Tensor((DEPTH, COLUMNS), "float16"),
        C: T.Tensor((ROWS, COLUMNS), "float32"),
        D: T.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(3, T.ceildiv(ROWS, 64), threads=128) as (split, row):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, COLUMNS), "float16")
            c = T.alloc_fragment((64, COLUMNS), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[row * 64, (split * 2 + k) * 32], a)
                T.copy(B[(split * 2 + k) * 32, 0], b)
                T.gemm(a, b, c, clear_accum=True)
                if kind == "before":
                    T.atomic_add(C[row * 64 - 64 : row * 64, :], c)
                elif kind == "max":
                    T.atomic_max(C[row * 64 : row * 64 + 64, :], c)
                else:
                    T.atomic_add(C[row * 64 : row * 64 + 64, :], c)
            if kind == "read":
                for i, j in T.Parallel(64, COLUMNS):
                    if row * 64 + i < ROWS and split == 0:
                        D[row * 64 + i, j] = C[row * 64 + i, j]

    return program


@pytest.mark.parametrize(("kind", "by_engine"), [("add", True), ("max", False), ("read", False), ("before", False)])
def test_the_engine_adds(kind: str, by_engine: bool) -> None:
    printed = tl.compile(split_product(kind), target=TARGET).get_kernel_source()
    assert ("tile_tma_reduce_add" in printed) == by_engine


def test_sums() -> None:
    torch.manual_seed(8)
    a, b = torch.randn(ROWS, DEPTH).half(), torch.randn(DEPTH, COLUMNS).half()
    c = torch.randn(ROWS, COLUMNS)
    expected = c + a.float() @ b.float()
    kernel = tl.compile(
        split_product("add"), target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True}
    )
    kernel(a, b, c, torch.empty_like(c))
    torch.testing.assert_close(c, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.emulate
@pytest.mark.parametrize("same", [True, False])
def test_one_result_is_added_to_several_places(same: bool) -> None:
    """To two tensors, and to two boxes of different axes of one."""

    @T.prim_func
    def program(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64, 64), "float32"),
        D: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.atomic_add(C[0:64, 1, 0:64], c)
            if same:
                T.atomic_add(C[2, 0:64, 0:64], c)
            else:
                T.atomic_add(D[0:64, 0:64], c)

    torch.manual_seed(9)
    a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
    c, d = torch.randn(64, 64, 64), torch.randn(64, 64)
    product = a.float() @ b.float()
    expected_c, expected_d = c.clone(), d.clone()
    expected_c[:, 1] += product
    if same:
        expected_c[2] += product
    else:
        expected_d += product
    kernel = tl.compile(program, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    assert "tile_tma_reduce_add" in kernel.get_kernel_source()
    kernel(a, b, c, d)
    torch.testing.assert_close(c, expected_c, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(d, expected_d, rtol=1e-3, atol=1e-2)
