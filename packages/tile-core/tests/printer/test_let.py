"""Values bound within expressions: evaluated once where that is safe, and only where the expression would."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm.ir.prim.expr as P
from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.printer import print_function
from tile_core.printer.c import C

I, N = tirx.Var("i", "int32"), tirx.Var("n", "int32")
A = tirx.decl_buffer((8,), "int32", "A")
OUT = tirx.decl_buffer((16,), "int32", "out")


def imm(value: int) -> Any:
    return tirx.IntImm("int32", value)


def doubled(value: Any) -> Any:
    """`let x = value in x + x`."""
    x = tirx.Var("x", "int32")
    return P.Let(x, value, P.Add(x, x))


def printed(body: Any) -> Any:
    return print_function(tirx.PrimFunc([A, OUT, N], body), C)


def test_a_value_is_bound_before_the_statement() -> None:
    body = S.BufferStore(OUT, doubled(tirx.BufferLoad(A, [imm(0)])), [imm(0)])
    assert "  const int32_t x = A[0];\n  out[0] = x + x;\n" in printed(body).source


def test_nested_values_have_names_of_their_own(run_c: Any) -> None:
    body = S.BufferStore(OUT, doubled(doubled(tirx.BufferLoad(A, [imm(0)]))), [imm(0)])
    source = printed(body)
    assert "x_1" in source.source
    result = np.zeros(16, np.int32)
    run_c(source, np.full(8, 3, np.int32), result, 0)
    assert result[0] == 12


def test_a_branch_that_is_not_taken_reads_nothing(run_c: Any) -> None:
    inside = P.And(P.GE(I, imm(0)), P.LT(I, imm(8)))
    value = tirx.if_then_else(inside, doubled(tirx.BufferLoad(A, [I])), imm(-1))
    body = S.For(I, imm(-4), imm(16), S.ForKind.SERIAL, S.BufferStore(OUT, value, [P.Add(I, imm(4))]))
    function = printed(body)
    assert "const int32_t x" not in function.source
    result = np.zeros(16, np.int32)
    run_c(function, np.arange(8, dtype=np.int32), result, 0)
    assert result.tolist() == [-1] * 4 + [2 * n for n in range(8)] + [-1] * 4


def test_the_right_side_of_and_is_guarded_by_the_left() -> None:
    condition = P.And(P.LT(N, imm(8)), P.GT(doubled(tirx.BufferLoad(A, [N])), imm(0)))
    source = printed(S.IfThenElse(condition, S.BufferStore(OUT, imm(1), [imm(0)]), None)).source
    assert "if (n < 8 && wrapping_add_int32(A[n], A[n]) > 0) {" in source


def test_a_loops_condition_is_evaluated_each_time(run_c: Any) -> None:
    count = tirx.BufferLoad(OUT, [imm(0)])
    body = S.While(P.LT(doubled(count), imm(10)), S.BufferStore(OUT, P.Add(count, imm(1)), [imm(0)]))
    result = np.zeros(16, np.int32)
    run_c(printed(body), np.zeros(8, np.int32), result, 0)
    assert result[0] == 5


def test_a_second_condition_is_not_evaluated_before_the_first() -> None:
    second = P.GT(doubled(tirx.BufferLoad(A, [N])), imm(0))
    inner = S.IfThenElse(second, S.BufferStore(OUT, imm(2), [imm(0)]), None)
    body = S.IfThenElse(P.GE(N, imm(8)), S.BufferStore(OUT, imm(1), [imm(0)]), inner)
    assert "} else if (wrapping_add_int32(A[n], A[n]) > 0) {" in printed(body).source
