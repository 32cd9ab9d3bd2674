"""Which loops over lanes become loops over pairs of lanes, and that others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.passes.pack_lanes import PACK, PackLanes

PAIRS = {"float16": frozenset({"add", "sub", "mul", "max", "min", "cast", "broadcast"})}
Body = Callable[[ir.Var, dict[str, ir.Var]], S.Stmt | list[S.Stmt]]


def array(name: str, dtype: str = "float16", scope: str = regions.LOCAL, size: int = 64) -> ir.Var:
    return tirx.decl_buffer((size,), dtype, name, scope=scope)


def packed(body: Body, context: Any, extent: int = 8) -> S.For:
    """The loop over `extent` lanes after the pass."""
    lane = tirx.Var("lane", "int32")
    arrays = {name: array(name) for name in "abc"} | {"f": array("f", "float32"), "g": array("g", scope="global")}
    made = body(lane, arrays)
    inner = visit.sequence(made) if isinstance(made, list) else made
    zero, count = tirx.IntImm("int32", 0), tirx.IntImm("int32", extent)
    loop = S.For(lane, zero, count, S.ForKind.UNROLLED, inner)
    func = tirx.PrimFunc([], visit.sequence([*(S.AllocBuffer(b) for b in arrays.values()), loop]))
    (found,) = visit.collect(PackLanes(PAIRS)(func, context).body, S.For)
    return found


def at(buffer: ir.Var, index: Any) -> ir.Expr:
    return tirx.BufferLoad(buffer, [index])


def put(buffer: ir.Var, value: ir.Expr, index: Any) -> S.Stmt:
    return S.BufferStore(buffer, value, [index])


def lanes_of_stores(loop: S.For) -> list[int]:
    return [int(store.value.ty.dtype.lanes) for store in visit.collect(loop, S.BufferStore)]


PACKED: dict[str, Body] = {
    "a sum": lambda i, v: put(v["c"], tirx.Add(at(v["a"], i), at(v["b"], i)), i),
    "in place, at an even offset": lambda i, v: put(v["a"], tirx.Mul(at(v["a"], i + 8), at(v["b"], i)), i + 8),
    "a scalar for both lanes": lambda i, v: put(v["c"], tirx.Sub(at(v["a"], i), at(v["b"], 3)), i),
    "a conversion of floats": lambda i, v: put(v["c"], tirx.Cast("float16", at(v["f"], i)), i),
    "a constant": lambda i, v: put(v["c"], tirx.Add(at(v["a"], i), tirx.FloatImm("float16", 2.0)), i),
}
KEPT: dict[str, Body] = {
    "an odd offset": lambda i, v: put(v["c"], tirx.Add(at(v["a"], i + 1), at(v["b"], i)), i),
    "a sum carried from lane to lane": lambda i, v: put(v["c"], tirx.Add(at(v["c"], 0), at(v["a"], i)), 0),
    "another lane's result": lambda i, v: put(v["a"], tirx.Add(at(v["a"], i + 2), at(v["b"], i)), i),
    "a stride": lambda i, v: put(v["c"], tirx.Add(at(v["a"], i * 2), at(v["b"], i)), i),
    "memory of others": lambda i, v: put(v["g"], tirx.Add(at(v["a"], i), at(v["b"], i)), i),
    "float32": lambda i, v: put(v["f"], tirx.Add(at(v["f"], i), at(v["f"], i)), i),
    "a quotient": lambda i, v: put(v["c"], tirx.Div(at(v["a"], i), at(v["b"], i)), i),
    "a branch": lambda i, v: S.IfThenElse(i < 3, put(v["c"], at(v["a"], i), i), None),
}


@pytest.mark.parametrize("name", PACKED)
def test_lanes_that_are_independent_are_packed(name: str, context: Any) -> None:
    loop = packed(PACKED[name], context)
    assert regions.constant(loop.step) == 2
    assert lanes_of_stores(loop) == [2]


@pytest.mark.parametrize("name", KEPT)
def test_everything_else_stays(name: str, context: Any) -> None:
    loop = packed(KEPT[name], context)
    assert loop.step is None
    assert lanes_of_stores(loop) == [1]


def test_an_odd_number_of_lanes_stays(context: Any) -> None:
    assert packed(PACKED["a sum"], context, extent=7).step is None


def test_what_has_no_two_wide_form_is_made_for_each_lane(context: Any) -> None:
    def body(lane: ir.Var, v: dict[str, ir.Var]) -> list[S.Stmt]:
        return [
            put(v["f"], tirx.Cast("float32", at(v["a"], lane)), lane),
            put(v["c"], tirx.Add(at(v["a"], lane), at(v["b"], lane)), lane),
        ]

    assert lanes_of_stores(packed(body, context)) == [1, 1, 2]


def test_names_are_pairs_where_pairs_are_wanted(context: Any) -> None:
    def body(lane: ir.Var, v: dict[str, ir.Var]) -> list[S.Stmt]:
        total = tirx.Var("total", "float16")
        return [
            S.Bind(total, tirx.Add(at(v["a"], lane), at(v["b"], lane))),
            put(v["c"], tirx.Mul(total, total), lane),
        ]

    loop = packed(body, context)
    assert [int(bind.var.ty.dtype.lanes) for bind in visit.collect(loop, S.Bind)] == [2]
    assert lanes_of_stores(loop) == [2]


def test_a_conversion_takes_two_floats(context: Any) -> None:
    (call,) = visit.collect(packed(PACKED["a conversion of floats"], context), ir.Call)
    assert str(call.op.name) == PACK
    assert [str(lane.ty.dtype) for lane in call.args] == ["float32", "float32"]
