"""Which products may be rounded more than the language does: all, where their author says so, and none otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import visit
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.allow_rounding import HALF_SUMS, TF32, AllowRounding
from tile_core.passes.base import PassContext


@T.prim_func
def products(A: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):
    with T.Kernel(1, threads=32):
        a, c = T.alloc_shared((16, 16), "float32"), T.alloc_fragment((16, 16), "float32")
        T.copy(A, a)
        T.gemm(a, a, c, clear_accum=True)
        T.gemm(a, a, c, transpose_B=True)
        T.copy(c, C)


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ({}, set()),
        ({"tile.allow_tf32": False}, set()),
        ({"tile.allow_tf32": True}, {TF32}),
        ({"tile.allow_float16_sums": True}, {HALF_SUMS}),
        ({"tile.allow_tf32": True, "tile.allow_float16_sums": True}, {TF32, HALF_SUMS}),
    ],
)
def test_products_are_marked(simt: PassContext, options: dict[str, bool], marks: set[str]) -> None:
    func = AllowRounding()(products, replace(simt, options=options))
    calls = [view(stmt, OPS) for stmt in visit.collect(func.body, S.Evaluate) if op_name(stmt) in OPS]
    assert [call.op.name for call in calls] == ["tile.copy", "tile.gemm", "tile.gemm", "tile.copy"]
    for call in calls:
        assert set(call.attrs) & {TF32, HALF_SUMS} == (marks if call.op.name == "tile.gemm" else set())
    assert [bool(call.attrs.get("transpose_b", 0)) for call in calls[1:3]] == [False, True]
