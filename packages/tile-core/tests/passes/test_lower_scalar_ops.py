"""Scalar ops become plain nodes whose size grows with the program, not exponentially."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops.scalar import SCALARS
from tile_core.passes.base import PassContext
from tile_core.passes.lower_scalar_ops import LowerScalarOps


def _program(depth: int) -> Any:
    buffer = tirx.decl_buffer((64,), "float32", "A")
    value: ir.Expr = tirx.BufferLoad(buffer, [tirx.IntImm("int32", 0)])
    for at in range(1, depth + 1):
        value = SCALARS["tile.max"].call(value, tirx.BufferLoad(buffer, [tirx.IntImm("int32", at)]))
    return tirx.PrimFunc([buffer], S.BufferStore(buffer, value, [tirx.IntImm("int32", 0)]))


def _scalar_ops(func: Any) -> list[str]:
    return [call.op.name for call in visit.collect(func.body, ir.Call) if call.op.name in SCALARS]


def test_expansions_grow_with_the_program(context: PassContext) -> None:
    sizes = []
    for depth in (10, 20):
        func = LowerScalarOps()(_program(depth), context)
        assert not _scalar_ops(func)
        sizes.append(len(visit.collect(func.body, tirx.Select)))
    assert sizes == [10, 20]


def test_a_load_is_evaluated_once(context: PassContext) -> None:
    func = LowerScalarOps()(_program(3), context)
    assert len(visit.collect(func.body, ir.TensorLoad)) == 4


def test_native_ops_stay_calls(context: PassContext) -> None:
    func = LowerScalarOps(native=frozenset({"tile.max"}))(_program(3), context)
    assert _scalar_ops(func) == ["tile.max"] * 3
