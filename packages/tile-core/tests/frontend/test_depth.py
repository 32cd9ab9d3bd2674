"""Expressions that grow while tracing, beyond what passes can walk."""

from __future__ import annotations

import functools

import pytest
import torch
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.errors import ExpressionDepthError
from tile_core.frontend.depth import MAX_DEPTH
from tile_core.ir import visit


def total_of(n, dtype="float32"):
    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((1,), dtype)):
        with T.Kernel(1):
            B[0] = sum([A[i] for i in range(n)])

    return kernel


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(("n", "dtype"), [(MAX_DEPTH + 2, "float16"), (300, "float32"), (300, "int32")])
def test_long_sums(target, n, dtype):
    a = torch.arange(n).fmod(7).to(getattr(torch, dtype))
    b = torch.full((1,), -1).to(a.dtype)
    tl.compile(total_of(n, dtype), target=target)(a, b)
    assert b.item() == a.float().sum().item()


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_long_maximum_compiles_in_time(target):
    @T.prim_func
    def kernel(A: T.Tensor((50,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = functools.reduce(T.max, [A[i] for i in range(50)])

    a, b = torch.randn(50), torch.zeros(1)
    compiled = tl.compile(kernel, target=target)
    compiled(a, b)
    assert b.item() == a.max().item()
    a[17] = float("nan")
    compiled(a, b)
    assert b.isnan().item()


def test_thousands_of_terms_are_traced():
    assert len(visit.collect(total_of(3000).body, S.Bind)) >= 3000 // MAX_DEPTH - 1


def test_where_nothing_can_be_bound():
    with pytest.raises(ExpressionDepthError, match=str(MAX_DEPTH)) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((300,), "float32")):
            with T.Kernel(1):
                A[0] = sum([A[i] for i in range(300)]) if A[1] > 0 else 0.0

    assert "sum(" in str(caught.value)
    assert "bind parts" in caught.value.remedy


def tree(values):
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return tree(values[:middle]) + tree(values[middle:])


def test_a_wide_expression_is_not_cut():
    @T.prim_func
    def kernel(A: T.Tensor((100,), "float32")):
        with T.Kernel(1):
            A[0] = tree([A[i] for i in range(100)])

    assert not visit.collect(kernel.body, S.Bind)
