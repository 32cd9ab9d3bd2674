"""Names that nothing uses are gone; those that statements, other names or a buffer's sizes need are not."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.drop_unused_names import DropUnusedNames

I, J, K, M = (tirx.Var(name, "int32") for name in "ijkm")
A = tirx.decl_buffer((64,), "int32", "A", scope="global")


def int32(value: int) -> ir.Expr:
    return E.IntImm("int32", value)


def names_left(*stmts: S.Stmt) -> list[str]:
    func = tirx.PrimFunc([A], S.SeqStmt(list(stmts)))
    body = DropUnusedNames()(func, context=None).body
    return [str(bind.var.name) for bind in visit.collect(body, S.Bind)]


def store(at: Any) -> S.Stmt:
    return S.BufferStore(A, int32(0), [at])


def test_an_unused_name_is_dropped_and_with_it_what_only_it_used() -> None:
    assert names_left(S.Bind(I, int32(1)), S.Bind(J, I + 1), S.Bind(K, int32(3)), store(K)) == ["k"]


def test_a_name_that_another_name_needs_stays() -> None:
    assert names_left(S.Bind(I, int32(1)), S.Bind(J, I + 1), store(J)) == ["i", "j"]


def test_a_name_of_a_buffers_extent_stays() -> None:
    tile = tirx.decl_buffer((M,), "int32", "tile", scope="global")
    filled = S.BufferStore(tile, int32(0), [int32(0)])
    assert names_left(S.Bind(M, int32(8)), S.Bind(I, int32(1)), S.AllocBuffer(tile), filled) == ["m"]


def test_loads_stay() -> None:
    assert names_left(S.Bind(I, tirx.BufferLoad(A, [int32(0)])), store(int32(1))) == ["i"]


def test_a_loop_of_nothing_but_names() -> None:
    loop = S.For(J, int32(0), int32(4), S.ForKind.SERIAL, S.Bind(I, J + 1))
    assert names_left(loop, store(int32(1))) == []
