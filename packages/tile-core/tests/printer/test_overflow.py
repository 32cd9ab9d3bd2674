"""Signed integers of memory and arguments wrap where that can be seen; indices and stored sums are printed plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as P
from tvm.tirx import stmt as S

from tile_core.printer.c import C
from tile_core.printer.printer import print_function

N = tirx.Var("n", "int32")
A = tirx.decl_buffer((4,), "int32", "A")
OUT = tirx.decl_buffer((4,), "int32", "out")
LARGEST = 2**31 - 1


def imm(value: int) -> Any:
    return tirx.IntImm("int32", value)


def printed(body: Any) -> Any:
    return print_function(tirx.PrimFunc([A, OUT, N], body), C)


def flag(condition: Any) -> Any:
    return S.BufferStore(OUT, P.Select(condition, imm(1), imm(0)), [imm(0)])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (P.GT(P.Add(N, imm(1)), N), 0),
        (P.LT(P.Sub(imm(-2), N), imm(0)), 0),
        (P.EQ(P.FloorDiv(P.Mul(N, imm(8)), imm(8)), N), 0),
        (P.GT(P.Add(tirx.BufferLoad(A, [imm(1)]), imm(1)), tirx.BufferLoad(A, [imm(1)])), 0),
        (P.LT(P.Cast("int64", P.Add(N, imm(1))), tirx.IntImm("int64", 0)), 1),
    ],
    ids=["sum", "difference", "product", "memory", "conversion"],
)
def test_what_leaves_its_range_comes_back_at_the_other_end(run_c: Any, condition: Any, expected: int) -> None:
    result = np.full(4, 7, np.int32)
    run_c(printed(flag(condition)), np.full(4, LARGEST, np.int32), result, LARGEST)
    assert result[0] == expected


def test_a_name_for_it_wraps(run_c: Any) -> None:
    moved = tirx.Var("moved", "int32")
    body = S.SeqStmt([S.Bind(moved, P.Add(N, imm(1))), flag(P.GT(moved, N))])
    result = np.full(4, 7, np.int32)
    run_c(printed(body), np.zeros(4, np.int32), result, LARGEST)
    assert result[0] == 0


def test_indices_and_sums_that_are_only_stored_are_plain() -> None:
    i = tirx.Var("i", "int32")
    guarded = S.IfThenElse(
        P.LT(P.Add(i, imm(1)), imm(4)), S.BufferStore(OUT, P.Add(N, imm(1)), [P.Add(i, imm(1))]), None
    )
    source = printed(S.For(i, imm(0), imm(4), S.ForKind.SERIAL, guarded)).source
    assert "if (i + 1 < 4) {" in source
    assert "out[i + 1] = n + 1;" in source


def test_a_range_that_is_known_needs_no_care() -> None:
    narrow = tirx.BufferLoad(tirx.decl_buffer((4,), "int8", "B"), [imm(0)])
    buffer = narrow.source
    body = flag(P.LT(P.Add(P.Cast("int32", narrow), imm(1)), imm(0)))
    assert "(int32_t)B[0] + 1 < 0" in print_function(tirx.PrimFunc([buffer, OUT], body), C).source
