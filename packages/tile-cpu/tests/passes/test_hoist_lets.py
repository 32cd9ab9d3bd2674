"""No `let` is left, and what was computed once is computed once."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.verify import verify
from tile_cpu.passes.hoist_lets import HoistLets

A = tirx.decl_buffer((64,), "float32", "A", layout=None)
X, Y = tirx.Var("x", "float32"), tirx.Var("y", "float32")
I = tirx.Var("i", "int32")


def load(at: int) -> ir.Expr:
    return tirx.BufferLoad(A, [tirx.IntImm("int32", at)])


def store(value: ir.Expr) -> S.Stmt:
    return S.BufferStore(A, value, [tirx.IntImm("int32", 0)])


def hoisted(body: S.Stmt) -> Any:
    func = HoistLets()(tirx.PrimFunc([A], body))
    assert not visit.collect(func.body, E.Let)
    verify(func)
    return func


def loads_of_a(func: Any) -> int:
    return sum(node.source.same_as(A) for node in visit.collect(func.body, ir.TensorLoad))


def test_nested_lets_are_evaluated_in_order_and_once() -> None:
    inner = E.Let(Y, load(1), E.Add(Y, Y))
    func = hoisted(store(E.Let(X, inner, E.Mul(X, X))))
    assert loads_of_a(func) == 1
    assert not visit.collect(func.body, S.Bind)


def test_one_let_that_occurs_twice_is_evaluated_once() -> None:
    shared = E.Let(X, load(1), E.Add(X, X))
    assert loads_of_a(hoisted(store(E.Mul(shared, shared)))) == 1


def test_a_let_in_a_choice_stays_under_its_condition() -> None:
    condition = E.LT(load(2), tirx.FloatImm("float32", 0.0))
    choice = tirx.if_then_else(condition, E.Let(X, load(1), E.Add(X, X)), tirx.FloatImm("float32", 1.0))
    func = hoisted(store(choice))
    (branch,) = visit.collect(func.body, S.IfThenElse)
    inside = [node for node in visit.collect(branch.then_case, ir.TensorLoad) if node.source.same_as(A)]
    assert len(inside) == 1
    assert loads_of_a(func) == 2


def test_names_of_data_become_cells_and_names_of_indices_stay() -> None:
    name = tirx.Var("at", "int32")
    index = S.BufferStore(A, X, [name])
    loop = S.For(
        I,
        tirx.IntImm("int32", 0),
        tirx.IntImm("int32", 8),
        S.ForKind.SERIAL,
        S.SeqStmt([S.Bind(name, I * 4 + 1), S.Bind(X, load(1)), index]),
    )
    func = hoisted(loop)
    (bind,) = visit.collect(func.body, S.Bind)
    assert bind.var.same_as(name)
    assert len(visit.collect(func.body, S.AllocBuffer)) == 1


def test_long_index_arithmetic_becomes_a_cell() -> None:
    stmts: list[S.Stmt] = []
    value: ir.Expr = I
    for at in range(12):
        name = tirx.Var(f"n{at}", "int32")
        stmts.append(S.Bind(name, E.Add(E.Mul(value, value), value)))
        value = name
    stmts.append(S.BufferStore(A, tirx.FloatImm("float32", 0.0), [value]))
    loop = S.For(I, tirx.IntImm("int32", 0), tirx.IntImm("int32", 8), S.ForKind.SERIAL, S.SeqStmt(stmts))
    func = hoisted(loop)
    assert 0 < len(visit.collect(func.body, S.Bind)) < 6
    assert len(visit.collect(func.body, S.AllocBuffer)) + len(visit.collect(func.body, S.Bind)) == 12


def test_a_mask_is_kept_as_bytes() -> None:
    mask = tirx.Var("mask", "boolx4")
    ramp = E.Ramp(tirx.IntImm("int32", 0), tirx.IntImm("int32", 1), 4)
    value = E.LT(ramp, E.Broadcast(I, 4))
    zeros = E.Broadcast(tirx.FloatImm("float32", 0.0), 4)
    masked = S.Evaluate(tirx.op.masked_store(A, zeros, ramp, mask))
    body = S.SeqStmt([S.Bind(mask, value), masked])
    func = hoisted(S.For(I, tirx.IntImm("int32", 0), tirx.IntImm("int32", 8), S.ForKind.SERIAL, body))
    assert not visit.collect(func.body, S.Bind)
    (cell,) = visit.collect(func.body, S.AllocBuffer)
    assert str(cell.buffer.dtype) == "int8x4"
    assert len(visit.collect(func.body, E.LT)) == 1
