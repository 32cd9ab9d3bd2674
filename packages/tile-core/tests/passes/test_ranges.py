"""What the analysis of ranges learns, and what it must not: integers that wrap on purpose."""

from __future__ import annotations

from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.passes.ranges import Ranges

EMPTY = tirx.PrimFunc([], S.Evaluate(tirx.IntImm("int32", 0)))


def test_index_facts_are_learnt() -> None:
    ranges, i = Ranges(EMPTY), tirx.Var("i", "int32")
    with ranges.assume(E.GE(E.Sub(i, tirx.IntImm("int32", 5)), tirx.IntImm("int32", 0))):
        assert ranges.proves(E.GE(i, tirx.IntImm("int32", 5)))
    assert not ranges.proves(E.GE(i, tirx.IntImm("int32", 5)))


def test_an_unsigned_comparison_is_no_fact() -> None:
    ranges, u = Ranges(EMPTY), tirx.Var("u", "uint32")
    with ranges.assume(E.GE(E.Sub(u, tirx.IntImm("uint32", 5)), tirx.IntImm("uint32", 0))):
        assert not ranges.proves(E.GE(E.Cast("int32", u), tirx.IntImm("int32", 5)))


def test_a_hash_is_not_analysed() -> None:
    ranges, x, y = Ranges(EMPTY), tirx.Var("x", "uint64"), tirx.Var("y", "uint32")
    product = E.Mul(tirx.IntImm("uint64", 0xD2511F53), tirx.IntImm("uint64", 0xCD9E8D57))
    ranges.bind(S.Bind(y, E.Cast("uint32", E.Add(x, product))))
    assert not ranges.proves(E.LT(y, tirx.IntImm("uint32", 10)))


def test_a_range_without_values_teaches_nothing_false() -> None:
    ranges, i = Ranges(EMPTY), tirx.Var("i", "int32")
    ranges.enter_loop(S.For(i, int32(0), int32(-1), S.ForKind.SERIAL, EMPTY.body))
    assert ranges.proves(E.LT(E.FloorMod(int32(255), i), int32(10))) in (True, False)
    assert ranges.proves(E.LT(int32(1), int32(2))), "the analyzer still works"


def test_a_divisor_that_can_only_be_zero_is_not_analysed() -> None:
    ranges, i = Ranges(EMPTY), tirx.Var("i", "int32")
    ranges.enter_loop(S.For(i, int32(0), int32(1), S.ForKind.SERIAL, EMPTY.body))
    remainder = E.FloorMod(int32(255), i)
    assert not ranges.proves(E.LT(remainder, int32(10)))
    with ranges.assume(E.LT(remainder, int32(10))):
        assert not ranges.proves(E.LT(remainder, int32(5)))


def test_arithmetic_with_huge_constants_may_wrap() -> None:
    ranges, i = Ranges(EMPTY), tirx.Var("i", "int32")
    ranges.enter_loop(S.For(i, int32(0), int32(8), S.ForKind.SERIAL, EMPTY.body))
    assert ranges.proves(E.LE(int32(0), E.Mul(i, int32(1000))))
    assert not ranges.proves(E.LE(int32(0), E.Mul(i, int32(2**31 - 1))))
    assert not ranges.proves(E.LE(int32(0), E.LShift(i, i)))


def int32(value: int) -> tirx.IntImm:
    return tirx.IntImm("int32", value)
