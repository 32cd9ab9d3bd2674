"""What the verifier refuses; that the passes' results pass it is checked by every test of a backend."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors import MalformedProgramError
from tile_core.passes.verify import verify, verifying

A = tirx.decl_buffer((8, 4), "float32", "A")
TILE = tirx.decl_buffer((4,), "float32", "tile", scope="shared.dyn")
I, J, X = (tirx.Var(name, "int32") for name in ("i", "j", "x"))
ONE = tirx.FloatImm("float32", 1.0)


def number(value: int, dtype: str = "int32") -> ir.Expr:
    return tirx.IntImm(dtype, value)


def loop(var: ir.Var, body: S.Stmt, dtype: str = "int32") -> S.Stmt:
    return S.For(var, number(0, dtype), number(4, dtype), S.ForKind.SERIAL, body)


GOOD = {
    "loops": lambda: loop(I, loop(J, S.BufferStore(A, ONE, [I, J]))),
    "a name": lambda: S.SeqStmt([S.Bind(X, number(1)), S.BufferStore(A, ONE, [X, X])]),
    "an allocation": lambda: S.SeqStmt([S.AllocBuffer(TILE), S.BufferStore(TILE, ONE, [number(0)])]),
    "a let": lambda: S.BufferStore(A, ONE, [tirx.Let(X, number(1), X), number(0)]),
    "a vector": lambda: S.BufferStore(A, tirx.Broadcast(ONE, 4), [number(0), tirx.Ramp(number(0), number(1), 4)]),
}
BAD = {
    "i is used": lambda: S.SeqStmt([loop(I, S.Evaluate(I)), S.Evaluate(I)]),
    "x is used": lambda: S.SeqStmt([S.IfThenElse(number(1, "bool"), S.Bind(X, number(1)), None), S.Evaluate(X)]),
    "tile is stored to": lambda: S.BufferStore(TILE, ONE, [number(0)]),
    "tile is used": lambda: S.BufferStore(A, tirx.BufferLoad(TILE, [number(0)]), [number(0), number(0)]),
}


@pytest.mark.parametrize("name", GOOD)
def test_well_formed(name: str) -> None:
    body: Callable[[], S.Stmt] = GOOD[name]
    verify(tirx.PrimFunc([A], body()))


@pytest.mark.parametrize("message", BAD)
def test_malformed(message: str) -> None:
    body: Callable[[], S.Stmt] = BAD[message]
    func = tirx.PrimFunc([A], body())
    with pytest.raises(MalformedProgramError, match=message):
        verify(func)
    with pytest.raises(MalformedProgramError, match=f"after made-up: .*{message}"):
        verifying("made-up", func)


def test_sizes_of_parameters_are_defined() -> None:
    n = tirx.Var("n", "int32")
    buffer = tirx.decl_buffer((n,), "float32", "B")
    verify(tirx.PrimFunc([buffer], S.For(I, number(0), n, S.ForKind.SERIAL, S.BufferStore(buffer, ONE, [I]))))
