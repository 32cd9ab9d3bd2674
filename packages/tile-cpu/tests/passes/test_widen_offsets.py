"""Which buffers are addressed in 64 bits."""

from __future__ import annotations

import pytest
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_cpu.passes.widen_offsets import WidenOffsets

N, I = tirx.Var("n", "int32"), tirx.Var("i", "int32")
ONE = tirx.IntImm("int32", 1)


def dtypes(shape: tuple[object, ...], index: ir.Expr, **options: object) -> list[str]:
    """The dtypes of the indices of a load, or of a masked load where `index` is a vector on the last axis."""
    buffer = tirx.decl_buffer(shape, "float32", "A", layout=None, **options)
    indices = [*[I] * (len(shape) - 1), index]
    lanes = index.ty.dtype.lanes
    body: S.Stmt = S.Evaluate(tirx.BufferLoad(buffer, indices))
    if lanes > 1:
        mask = E.Broadcast(tirx.IntImm("bool", 1), lanes)
        body = S.Evaluate(tirx.op.masked_load(f"float32x{lanes}", buffer, *indices, mask))
    func = WidenOffsets()(tirx.PrimFunc([buffer], body))
    if lanes > 1:
        (call,) = (node for node in visit.collect(func.body, ir.Call) if node.op.name == "tirx.masked_load")
        return [str(argument.ty.dtype) for argument in call.args[1:-1]]
    (load,) = visit.collect(func.body, ir.TensorLoad)
    return [str(at.ty.dtype) for at in load.indices]


@pytest.mark.parametrize(
    ("shape", "wide"),
    [((64, 64), False), ((1 << 16, 1 << 15), True), ((N,), False), ((N, 4), True), ((1 << 16, (1 << 15) - 1), False)],
)
def test_the_number_of_elements_decides(shape: tuple[object, ...], wide: bool) -> None:
    expected = "int64" if wide else "int32"
    assert set(dtypes(shape, I)) == {expected}
    assert set(dtypes(shape, ONE)) == {expected}
    assert dtypes(shape, E.Ramp(I, ONE, 4))[-1] == f"{expected}x4"


def test_strides_are_not_bounded_by_extents() -> None:
    assert set(dtypes((8, 8), I, strides=(N, 1))) == {"int64"}
