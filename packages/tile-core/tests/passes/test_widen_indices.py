"""Which indices are computed in 64 bits."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import ir
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.widen_indices import WidenIndices


def index_of(func: Any, context: PassContext) -> Any:
    (store,) = visit.collect(WidenIndices()(func, context).body, S.BufferStore)
    return store.indices[0]


@pytest.mark.parametrize(("extent", "dtype"), [(2**31 + 64, "int64"), (2**30, "int32")])
def test_the_extent_decides(context: PassContext, extent: int, dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((extent,), "uint8")):
        with T.Kernel(T.ceildiv(extent, 256)) as bx:
            for i in T.Parallel(256):
                A[bx * 256 + i] = T.uint8(1)

    index = index_of(kernel, context)
    assert str(index.ty.dtype) == dtype
    if dtype == "int64":
        assert str(index.a.ty.dtype) == "int64", "the product is computed in 64 bits"
        assert str(index.a.a.ty.dtype) == "int64"


def test_a_name_is_widened_through_its_value(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2**31 + 64,), "uint8")):
        with T.Kernel(2**23 + 1) as bx:
            start = bx * 256
            for i in T.Parallel(256):
                A[start + i] = T.uint8(1)

    index = index_of(kernel, context)
    products = [node for node in visit.collect(index, ir.prim.expr.Mul) if str(node.ty.dtype) == "int64"]
    assert products, index


def test_symbolic_extents_go_by_their_dtype(context: PassContext) -> None:
    for dtype in ("int32", "int64"):
        n = T.dynamic("n", dtype)

        @T.prim_func
        def kernel(A: T.Tensor((n,), "uint8")):
            with T.Kernel(4) as bx:
                A[bx * 256] = T.uint8(1)

        assert str(index_of(kernel, context).ty.dtype) == dtype
