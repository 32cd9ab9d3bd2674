"""Bits of the constant 0."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_the_bits_of_zero(dtype: str) -> None:
    source = "float32" if dtype != "float32" else "int32"

    @T.prim_func
    def kernel(A: T.Tensor((4,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = T.reinterpret(T.cast(0, source), dtype)

    a = torch.full((4,), 7).to(getattr(torch, dtype))
    tl.compile(kernel, target="cpu")(a)
    assert a.tolist() == [0] * 4


def test_an_atomic_update_by_an_element_that_is_outside_for_certain() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), Out: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                T.atomic_add(Out[0], A[8 + i])

    out = torch.tensor([5], dtype=torch.int32)
    tl.compile(kernel, target="cpu")(torch.ones(8, dtype=torch.int32), out)
    assert out.item() == 5
