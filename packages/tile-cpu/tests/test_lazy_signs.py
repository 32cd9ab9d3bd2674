"""Views whose sign torch applies lazily are refused: their memory holds the negatives."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import ArgumentCountError, ArgumentLayoutError


@T.prim_func
def copy(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
    with T.Kernel(1, threads=32):
        T.copy(A, B)


@T.prim_func
def scale(factor: T.float32, A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            B[i] = A[i] * factor


@tl.jit(target="cpu")
def eager(A):
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    B = T.empty((n,), T.float32)
    with T.Kernel(1, threads=32):
        T.copy(A, B)
    return B


def test_neither_as_input_nor_as_output() -> None:
    kernel = tl.compile(copy, target="cpu")
    plain, negative = torch.ones(4), torch._neg_view(torch.ones(4))
    for arguments in ((negative, plain), (plain, negative)):
        with pytest.raises(ArgumentLayoutError, match="negative") as refused:
            kernel(*arguments)
        assert "resolve_neg()" in str(refused.value)
    assert torch.equal(plain, torch.ones(4))


def test_behind_a_scalar() -> None:
    kernel = tl.compile(scale, target="cpu")
    plain, out = torch.ones(4), torch.zeros(4)
    kernel(2.0, plain, out)
    assert torch.equal(out, torch.full((4,), 2.0))
    with pytest.raises(ArgumentLayoutError, match="negative"):
        kernel(3.0, torch._neg_view(plain), out)
    with pytest.raises(ArgumentLayoutError, match="negative"):
        kernel(3.0, plain.numpy(), torch._neg_view(out))
    with pytest.raises(ArgumentCountError):
        kernel(3.0, plain)
    assert torch.equal(out, torch.full((4,), 2.0))


def test_eager_functions_refuse_them_too() -> None:
    for _ in range(2):
        assert torch.equal(eager(torch.ones(4)), torch.ones(4))
        with pytest.raises(ArgumentLayoutError, match="negative"):
            eager(torch._neg_view(torch.ones(4)))
