"""Printed expressions, compiled and compared with numpy to the last bit."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm.ir.prim.expr as P
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.printer import print_function
from tile_core.printer.c import C

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
LENGTH = 24
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, 3.4e38, 0.1, 2.5, -3.5)


def inputs(dtype: str) -> np.ndarray:
    """Values of a dtype, the ends of its range among them."""
    random = np.random.default_rng(len(dtype) + ord(dtype[0]))
    if dtype == "bool":
        return random.integers(0, 2, LENGTH).astype(bool)
    if dtype in FLOATS:
        drawn = random.standard_normal(LENGTH) * 10.0 ** random.integers(-3, 4, LENGTH)
        drawn[: len(SPECIAL)] = SPECIAL
        with np.errstate(over="ignore"):
            return drawn.astype(dtype)
    info = np.iinfo(dtype)
    drawn = random.integers(info.min, info.max, LENGTH, dtype=dtype, endpoint=True)
    drawn[:6] = (info.min, info.max, 0, 1, info.max - 1, info.min + 1)
    return drawn


@dataclass(frozen=True)
class Term:
    """A TVM expression over the element `i` of the inputs, and the values it must have."""

    node: Any
    values: np.ndarray

    def __repr__(self) -> str:
        return str(self.node)

    @property
    def dtype(self) -> str:
        return str(self.node.ty.dtype)


DTYPES = (*INTS, *FLOATS, "bool")
INDEX = tirx.Var("i", "int32")
BUFFERS = {dtype: tirx.decl_buffer((LENGTH,), dtype, f"x_{dtype}") for dtype in DTYPES}
INPUTS = {dtype: inputs(dtype) for dtype in DTYPES}


def load(dtype: str) -> Term:
    return Term(tirx.BufferLoad(BUFFERS[dtype], [INDEX]), INPUTS[dtype])


def rolled(term: Term) -> Term:
    """The same kind of value at another element, so that operands differ."""
    buffer = BUFFERS[term.dtype]
    index = P.FloorMod(P.Add(INDEX, tirx.IntImm("int32", 5)), tirx.IntImm("int32", LENGTH))
    return Term(tirx.BufferLoad(buffer, [index]), np.roll(INPUTS[term.dtype], -5))


def number(value: Any, dtype: str) -> Term:
    kind = tirx.FloatImm if dtype in FLOATS else tirx.IntImm
    with np.errstate(over="ignore"):
        return Term(kind(dtype, value), np.full(LENGTH, value).astype(dtype))


def constants(dtype: str) -> st.SearchStrategy[Term]:
    if dtype == "bool":
        return st.booleans().map(lambda value: number(int(value), dtype))
    if dtype in FLOATS:
        width = 32 if dtype == "float32" else 64
        return st.floats(width=width).map(lambda value: number(value, dtype))
    info = np.iinfo(dtype)
    low, high = int(info.min), min(int(info.max), 2**63 - 1)
    return st.integers(low, high).map(lambda value: number(value, dtype))


def leaves(dtype: str) -> st.SearchStrategy[Term]:
    return st.one_of(st.just(load(dtype)), st.just(rolled(load(dtype))), constants(dtype))


Meaning = Callable[..., np.ndarray]


def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def binary(kind: Any, meaning: Meaning) -> Callable[[Term, Term], Term]:
    def build(a: Term, b: Term) -> Term:
        with np.errstate(all="ignore"):
            values = meaning(a.values, b.values)
        return Term(kind(a.node, b.node), values if values.dtype == bool else values.astype(a.values.dtype))

    return build


COMPARISONS = [
    binary(kind, meaning)
    for kind, meaning in (
        (P.EQ, operator.eq),
        (P.NE, operator.ne),
        (P.LT, operator.lt),
        (P.LE, operator.le),
        (P.GT, operator.gt),
        (P.GE, operator.ge),
    )
]
ARITHMETIC = [binary(P.Add, operator.add), binary(P.Sub, operator.sub), binary(P.Mul, operator.mul)]
INTEGER = [
    *ARITHMETIC,
    binary(P.BitwiseAnd, operator.and_),
    binary(P.BitwiseOr, operator.or_),
    binary(P.BitwiseXor, operator.xor),
    binary(P.Min, np.minimum),
    binary(P.Max, np.maximum),
]
FLOATING = [*ARITHMETIC, binary(P.Div, operator.truediv)]
LOGICAL = [binary(P.And, np.logical_and), binary(P.Or, np.logical_or), binary(P.BitwiseXor, operator.xor)]
# Divisors are constants: C leaves division by zero and the smallest integer divided by -1 open.
DIVISIONS = [
    binary(P.FloorDiv, operator.floordiv),
    binary(P.FloorMod, operator.mod),
    binary(P.Div, truncated),
    binary(P.Mod, lambda a, b: a - truncated(a, b) * b),
]
SHIFTS = [binary(P.LShift, operator.lshift), binary(P.RShift, operator.rshift)]
ROUNDINGS: list[tuple[Any, Meaning]] = [
    (tirx.floor, np.floor),
    (tirx.ceil, np.ceil),
    (tirx.trunc, np.trunc),
    (tirx.nearbyint, np.rint),
    (tirx.sqrt, np.sqrt),
    (tirx.abs, np.abs),
]


def select(condition: Term, a: Term, b: Term, *, lazy: bool) -> Term:
    node = tirx.if_then_else(condition.node, a.node, b.node) if lazy else P.Select(condition.node, a.node, b.node)
    return Term(node, np.where(condition.values, a.values, b.values))


@st.composite
def terms(draw: st.DrawFn, dtype: str, depth: int) -> Term:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(leaves(dtype))
    inner = terms(dtype, depth - 1)
    if dtype == "bool":
        return draw(conditions(depth))
    choice = draw(st.integers(0, 5))
    if choice == 0:
        return select(draw(conditions(depth)), draw(inner), draw(inner), lazy=draw(st.booleans()))
    if choice == 1:
        return converted(draw(terms(draw(st.sampled_from((*INTS, "bool"))), depth - 1)), dtype)
    if dtype in FLOATS:
        if choice == 2:
            function, meaning = draw(st.sampled_from(ROUNDINGS))
            operand = draw(inner)
            with np.errstate(all="ignore"):
                return Term(function(operand.node), meaning(operand.values))
        return draw(st.sampled_from(FLOATING))(draw(inner), draw(inner))
    if choice == 2:
        divisor = draw(st.sampled_from((2, 3, 7, 100) if dtype[0] == "u" else (-100, -7, -2, 2, 3, 100)))
        return draw(st.sampled_from(DIVISIONS))(draw(inner), number(divisor, dtype))
    if choice == 3:
        amount = draw(st.integers(0, np.iinfo(dtype).bits - 1))
        return draw(st.sampled_from(SHIFTS))(draw(inner), number(amount, dtype))
    if choice == 4:
        operand = draw(inner)
        return Term(P.BitwiseNot(operand.node), ~operand.values)
    return draw(st.sampled_from(INTEGER))(draw(inner), draw(inner))


def converted(term: Term, dtype: str) -> Term:
    return Term(P.Cast(dtype, term.node), term.values.astype(dtype))


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> Term:
    if depth == 0:
        return draw(leaves("bool"))
    choice = draw(st.integers(0, 3))
    if choice == 0:
        operand = draw(conditions(depth - 1))
        return Term(draw(st.sampled_from((P.Not, P.BitwiseNot)))(operand.node), ~operand.values)
    if choice == 1:
        return draw(st.sampled_from(LOGICAL))(draw(conditions(depth - 1)), draw(conditions(depth - 1)))
    dtype = draw(st.sampled_from((*INTS, *FLOATS)))
    return draw(st.sampled_from(COMPARISONS))(draw(terms(dtype, depth - 1)), draw(terms(dtype, depth - 1)))


def kernel(drawn: list[Term]) -> Any:
    outputs = [tirx.decl_buffer((LENGTH,), term.dtype, f"y{n}") for n, term in enumerate(drawn)]
    stores = [S.BufferStore(out, term.node, [INDEX]) for out, term in zip(outputs, drawn, strict=True)]
    zero, extent = tirx.IntImm("int32", 0), tirx.IntImm("int32", LENGTH)
    loop = S.For(INDEX, zero, extent, S.ForKind.SERIAL, S.SeqStmt(stores) if len(stores) > 1 else stores[0])
    return tirx.PrimFunc([*BUFFERS.values(), *outputs], loop).with_attr("global_symbol", "kernel")


def check(drawn: list[Term], run_c: Any, same_bits: Any) -> None:
    printed = print_function(kernel(drawn), C)
    outputs = [np.full(LENGTH, 77).astype(term.values.dtype) for term in drawn]
    run_c(printed, *INPUTS.values(), *outputs)
    for term, output in zip(drawn, outputs, strict=True):
        same_bits(output, term.values)


MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@given(st.lists(st.sampled_from(DTYPES).flatmap(lambda dtype: terms(dtype, 4)), min_size=12, max_size=12))
def test_random_expressions_equal_numpy(run_c: Any, same_bits: Any, drawn: list[Term]) -> None:
    check(drawn, run_c, same_bits)


@pytest.mark.parametrize("dtype", INTS)
def test_every_integer_operation_at_the_ends_of_the_range(run_c: Any, same_bits: Any, dtype: str) -> None:
    a, b = load(dtype), rolled(load(dtype))
    divisors = (3, 5) if dtype[0] == "u" else (3, -3)
    drawn = [build(a, b) for build in (*INTEGER, *COMPARISONS)]
    drawn += [build(a, number(divisor, dtype)) for build in DIVISIONS for divisor in divisors]
    drawn += [build(a, number(amount, dtype)) for build in SHIFTS for amount in (0, 1, np.iinfo(dtype).bits - 1)]
    drawn += [Term(P.BitwiseNot(a.node), ~a.values)]
    # An operation on a narrow type wraps before the next one sees it.
    drawn += [
        binary(P.RShift, operator.rshift)(ARITHMETIC[0](a, b), number(1, dtype)),
        COMPARISONS[2](ARITHMETIC[2](a, b), b),
    ]
    check(drawn, run_c, same_bits)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float_operation_on_special_values(run_c: Any, same_bits: Any, dtype: str) -> None:
    a, b = load(dtype), rolled(load(dtype))
    drawn = [build(a, b) for build in (*FLOATING, *COMPARISONS)]
    with np.errstate(all="ignore"):
        drawn += [Term(function(a.node), meaning(a.values)) for function, meaning in ROUNDINGS]
    drawn += [COMPARISONS[1](a, a), ARITHMETIC[1](a, a), ARITHMETIC[2](a, number(0.0, dtype))]
    drawn += [Term(tirx.isnan(a.node), np.isnan(a.values))]
    check(drawn, run_c, same_bits)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_between_all_types(run_c: Any, same_bits: Any, source: str) -> None:
    term = load(source)
    if source in FLOATS:
        # What numpy makes of a float beyond the range of an integer type depends on the machine.
        term = select(
            COMPARISONS[2](Term(tirx.abs(term.node), np.abs(term.values)), number(100.0, source)),
            term,
            number(7.5, source),
            lazy=False,
        )
    # numpy would complain about -1.0 → unsigned.
    targets = [dtype for dtype in DTYPES if source not in FLOATS or dtype[0] != "u"]
    check([converted(term, dtype) for dtype in targets], run_c, same_bits)


def test_floor_division_uses_the_operator_where_nothing_is_negative() -> None:
    i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
    buffer = tirx.decl_buffer((64,), "int32", "A")
    seven = tirx.IntImm("int32", 7)
    index = P.Add(P.FloorDiv(i, seven), P.FloorMod(i, seven))
    body = S.For(
        i, tirx.IntImm("int32", 0), tirx.IntImm("int32", 64), S.ForKind.SERIAL, S.BufferStore(buffer, j, [index])
    )
    assert "A[i / 7 + i % 7] = j;" in print_function(tirx.PrimFunc([buffer, j], body), C).source


A, B, K = (tirx.Var(name, "int32") for name in "abk")
X, Y = (tirx.Var(name, "bool") for name in "xy")
ONE = tirx.IntImm("int32", 1)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (P.Sub(P.Sub(A, B), K), "a - b - k"),
        (P.Sub(A, P.Sub(B, K)), "a - (b - k)"),
        (P.Add(A, P.Add(B, K)), "a + (b + k)"),
        (P.Mul(P.Add(A, B), K), "(a + b) * k"),
        (P.Add(P.Mul(A, B), K), "a * b + k"),
        (P.Sub(A, tirx.IntImm("int32", -1)), "a - -1"),
        (P.Mul(tirx.IntImm("int32", -2), A), "-2 * a"),
        (P.LShift(P.Add(A, B), ONE), "(a + b) << 1"),
        (P.Add(P.LShift(A, ONE), B), "(a << 1) + b"),
        (P.BitwiseOr(P.BitwiseAnd(A, B), K), "(a & b) | k"),
        (P.BitwiseOr(P.BitwiseOr(A, B), K), "a | b | k"),
        (P.LT(P.Add(A, B), K), "wrapping_add_int32(a, b) < k"),
        (P.Or(P.And(X, Y), X), "(x && y) || x"),
        (P.And(P.LT(A, B), P.LE(B, K)), "a < b && b <= k"),
        (P.Not(P.LT(A, B)), "!(a < b)"),
        (P.Not(P.Not(X)), "!!x"),
        (P.Select(X, P.Select(Y, A, B), P.Select(Y, B, K)), "x ? (y ? a : b) : y ? b : k"),
        (P.Cast("int64", P.Add(A, B)), "(int64_t)wrapping_add_int32(a, b)"),
        (P.Cast("float32", P.Cast("int64", A)), "(float)(int64_t)a"),
        (tirx.IntImm("int32", -(2**31)), "(-2147483647 - 1)"),
        (tirx.IntImm("int64", -(2**63)), "(-9223372036854775807ll - 1ll)"),
        (tirx.IntImm("uint64", 2**63 - 1), "9223372036854775807ull"),
        (tirx.FloatImm("float32", 0.1), "0.1f"),
        (tirx.FloatImm("float32", math.inf), "INFINITY"),
        (tirx.FloatImm("float64", -math.inf), "(double)-INFINITY"),
        (tirx.FloatImm("float32", -0.0), "-0.0f"),
    ],
)
def test_text(node: Any, text: str) -> None:
    out = tirx.decl_buffer((1,), str(node.ty.dtype), "out")
    func = tirx.PrimFunc([A, B, K, X, Y, out], S.BufferStore(out, node, [tirx.IntImm("int32", 0)]))
    assert f"out[0] = {text};" in print_function(func, C).source


def test_arguments_of_a_large_buffer_are_indexed_in_64_bits(run_c: Any) -> None:
    rows, columns = tirx.Var("rows", "int32"), tirx.Var("columns", "int32")
    matrix = tirx.decl_buffer((rows, columns), "int8", "M")
    out = tirx.decl_buffer((1,), "int8", "out")
    r, c = tirx.Var("r", "int32"), tirx.Var("c", "int32")
    func = tirx.PrimFunc([matrix, out, r, c], S.BufferStore(out, tirx.BufferLoad(matrix, [r, c]), [0]))
    printed = print_function(func, C)
    assert "M[(int64_t)r * columns + c]" in printed.source
    data = np.zeros((3, 2**30 + 1), np.int8)
    data[2, 5] = 42
    result = np.zeros(1, np.int8)
    run_c(printed, data, result, 2, 5)
    assert result[0] == 42


def test_strides_are_parameters(run_c: Any) -> None:
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    source = tirx.decl_buffer((n,), "float32", "A", strides=[s])
    out = tirx.decl_buffer((n,), "float32", "B")
    i = tirx.Var("i", "int64")
    body = S.For(i, tirx.IntImm("int64", 0), n, S.ForKind.SERIAL, S.BufferStore(out, tirx.BufferLoad(source, [i]), [i]))
    printed = print_function(tirx.PrimFunc([source, out], body), C)
    data = np.arange(21, dtype=np.float32)[::3]
    result = np.zeros(7, np.float32)
    run_c(printed, data, result)
    np.testing.assert_array_equal(result, data)


def test_a_stored_value_is_not_confused_with_its_address() -> None:
    buffer = tirx.decl_buffer((8,), "float32", "A")
    element = tirx.BufferLoad(buffer, [tirx.IntImm("int32", 3)])
    use = S.Evaluate(ir.Call(ir.Op.get("tirx.address_of"), [element], ret_ty="handle"))
    source = print_function(tirx.PrimFunc([buffer], use), C).source
    assert "&A[3];" in source
    assert "float* A" in source
    assert "const" not in source
