"""Intervals are sound: no value that an expression can have lies outside."""

from __future__ import annotations

from typing import Any

import tvm.ir.prim.expr as P
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from tile_core.printer.intervals import Interval, Intervals, of_dtype, of_size

DTYPE = "int8"
RANGE = (-128, 127)
X, Y = tirx.Var("x", DTYPE), tirx.Var("y", DTYPE)


def wrap(value: int) -> int:
    return (value + 128) % 256 - 128


OPERATIONS: dict[Any, Any] = {
    P.Add: lambda a, b: wrap(a + b),
    P.Sub: lambda a, b: wrap(a - b),
    P.Mul: lambda a, b: wrap(a * b),
    P.Min: min,
    P.Max: max,
    P.FloorDiv: lambda a, b: wrap(a // b) if b else 0,
    P.FloorMod: lambda a, b: a % b if b else 0,
    P.BitwiseAnd: lambda a, b: a & b,
    P.BitwiseOr: lambda a, b: a | b,
    P.BitwiseXor: lambda a, b: a ^ b,
    P.RShift: lambda a, b: a >> b,
}


def is_defined(operation: Any, right: int) -> bool:
    """Whether C defines the operation by `right`."""
    return right != 0 if operation in (P.FloorDiv, P.FloorMod) else operation is not P.RShift or 0 <= right < 8


bounds = st.tuples(st.integers(*RANGE), st.integers(*RANGE)).map(lambda pair: Interval(min(pair), max(pair)))


@given(bounds, bounds, st.sampled_from(list(OPERATIONS)), st.sampled_from(list(OPERATIONS)), st.data())
def test_every_value_lies_within(a: Interval, b: Interval, outer: Any, inner: Any, data: st.DataObject) -> None:
    intervals = Intervals()
    intervals.bind(X, a)
    intervals.bind(Y, b)
    x, y = data.draw(st.integers(a.low, a.high)), data.draw(st.integers(b.low, b.high))
    if not (is_defined(inner, y) and is_defined(outer, x)):
        return
    value = OPERATIONS[outer](OPERATIONS[inner](x, y), x)
    found = intervals.of(outer(inner(X, Y), X))
    assert found.low <= value <= found.high
    assert found.within(of_dtype(X))


def test_a_cast_that_wraps_has_every_value() -> None:
    wide = tirx.Var("w", "uint8")
    assert Intervals().of(P.Cast("int8", wide)) == Interval(-128, 127)
    assert Intervals().of(P.Cast("int16", wide)) == Interval(0, 255)


def test_index_arithmetic_over_unknown_sizes_is_not_negative() -> None:
    n, block, i = (tirx.Var(name, "int32") for name in ("n", "block", "i"))
    seven, eight = tirx.IntImm("int32", 7), tirx.IntImm("int32", 8)
    intervals = Intervals()
    intervals.bind(n, of_size(n))
    intervals.bind_loop(block, tirx.IntImm("int32", 0), P.FloorDiv(P.Add(n, seven), eight))
    intervals.bind_loop(i, tirx.IntImm("int32", 0), eight)
    assert intervals.of(P.Add(P.Mul(block, eight), i)).low == 0
    assert intervals.of(P.Mul(block, block)).low < 0


def test_places_of_a_swizzled_tile_are_known() -> None:
    row, column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
    intervals = Intervals()
    intervals.bind(row, Interval(0, 63))
    intervals.bind(column, Interval(0, 127))
    place = tirx.floordiv(column, 8) ^ tirx.floormod(row, 8)
    assert intervals.of(place) == Interval(0, 15)
    assert not intervals.overflows(place * 8 + row * 128)
