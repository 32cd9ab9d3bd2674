"""Expressions: dtypes of results, folding that is right for NaN, indexing, what Python may not ask of a device
value."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

import tile_core as tl
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import (
    AmbiguousDivisionError,
    ConstantRangeError,
    DeviceValueAsBoolError,
    DeviceValueAsNumberError,
    DivisionByZeroError,
    DTypeCallError,
    IndexCountError,
    IndexRangeError,
    OperandError,
    TileError,
)
from tile_core.frontend.arith import constant
from tile_core.frontend.promotion import promote
from tile_core.frontend.values import Buffer, Element, Expr, Region, Var, unwrap, unwrap_cast


def var(dtype: str, name: str = "x") -> Var:
    return Var(tirx.Var(name, dtype))


def buffer(*shape: int, dtype: str = "float32") -> Buffer:
    return Buffer(tirx.decl_buffer(shape, dtype, "A"))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int8", "int32", "int32"),
        ("int8", "uint8", "uint8"),
        ("uint8", "int8", "uint8"),
        ("int64", "float16", "float16"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float16"),
        ("bfloat16", "float16", "bfloat16"),
        ("bool", "int8", "int8"),
        ("bool", "float16", "float16"),
        ("uint32", "int64", "int64"),
        ("float32x4", "float16", "float32x4"),
        ("float8_e4m3fn", "float16", "float16"),
    ],
)
def test_promotion(a, b, expected):
    assert promote(DType(a), DType(b)) == expected
    assert (var(a) + var(b)).dtype == expected


def test_vectors_of_different_length_do_not_combine():
    with pytest.raises(OperandError, match="lanes"):
        var("float32x4") + var("float32x2")


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("float16", 2, "float16"),
        ("float16", 1.5, "float32"),
        ("float64", 1.5, "float64"),
        ("int32", 1.5, "float32"),
        ("uint8", 255, "uint8"),
        ("uint8", 300, "int32"),
        ("uint8", -1, "int16"),
        ("uint32", -1, "int64"),
        ("int32", 2**40, "int64"),
        ("int8", True, "int8"),
        ("bool", 2, "int32"),
    ],
)
def test_numbers_beside_values(dtype, number, expected):
    assert (var(dtype) + number).dtype == expected
    assert (number + var(dtype)).dtype == expected
    assert (var(dtype) < number).dtype == "bool"


def test_numbers_that_have_no_dtype():
    with pytest.raises(ConstantRangeError):
        var("uint64") + -1
    with pytest.raises(ConstantRangeError):
        var("float16") * 100000
    with pytest.raises(ConstantRangeError):
        unwrap(2**64)
    with pytest.raises(ConstantRangeError, match="infinity"):
        unwrap(1e300)


def test_floats_are_not_folded():
    x = var("float32")
    for expr in (x * 0.0, x - x, x != x, x == x, x + 0.0, 0.0 * x, x / x):
        assert isinstance(expr.ir, tirx.Mul | tirx.Sub | tirx.NE | tirx.EQ | tirx.Add | tirx.Div)


def test_the_sign_of_a_negated_zero_is_kept():
    assert math.copysign(1, float((-Expr(unwrap(0.0))).ir.value)) == -1
    assert isinstance((-var("float32")).ir, tirx.Mul)


def test_integers_fold_exactly_and_wrap():
    one = Expr(constant(127, DType("int8")))
    assert int((one + Expr(constant(1, DType("int8")))).ir.value) == -128
    i = var("int32")
    assert (i + 0).ir.same_as(i.ir)
    assert (1 * i).ir.same_as(i.ir)
    assert (i // 1).ir.same_as(i.ir)
    assert isinstance((0 - i).ir, tirx.Sub)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^"]),
)
def test_constants_fold_as_int32(a, b, symbol):
    operation = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
    operation |= {"&": operator.and_, "|": operator.or_, "^": operator.xor}
    x, y = Expr(constant(a, DType("int32"))), Expr(constant(b, DType("int32")))
    if symbol in ("//", "%") and b == 0:
        with pytest.raises(DivisionByZeroError):
            operation[symbol](x, y)
        return
    folded = operation[symbol](x, y).ir
    assert isinstance(folded, tirx.IntImm)
    exact = operation[symbol](a, b)
    assert int(folded.value) == (exact + 2**31) % 2**32 - 2**31


DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_integer_operators_are_those_of_numpy(dtype):
    kind = DType(dtype)
    low = -50 if kind.is_int else 0
    values = np.array([low, low + 1, -7, -3, -1, 0, 1, 2, 3, 7, 100], dtype="int64")
    values = values[values >= low].astype(kind.numpy)
    n = len(values)
    symbols = [
        operator.add,
        operator.sub,
        operator.mul,
        operator.floordiv,
        operator.mod,
        operator.and_,
        operator.or_,
        operator.xor,
    ]

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((8, n, n), dtype)):
        with T.Kernel(1, threads=32):
            for k, symbol in enumerate(symbols):
                for i, j in T.grid(n, n):
                    if k < 3 or k > 4 or B[j] != 0:
                        C[k, i, j] = symbol(A[i], B[j])

    a = torch.from_numpy(values)
    c = torch.zeros((8, n, n), dtype=kind.torch)
    tl.compile(kernel, target="interpret")(a, a.clone(), c)
    for k, symbol in enumerate(symbols):
        divisor = np.where(values == 0, 1, values)[None, :] if k in (3, 4) else values[None, :]
        expected = symbol(values[:, None], divisor)
        if k in (3, 4):
            expected = np.where(values[None, :] == 0, 0, expected)
        np.testing.assert_array_equal(c[k].numpy(), expected, err_msg=symbol.__name__)


def test_shifts_negation_and_inversion():
    @T.prim_func
    def kernel(
        A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.bool), C: T.Tensor((6, 4), T.int32), D: T.Tensor((4, 4), T.bool)
    ):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                C[0, i] = A[i] << 2
                C[1, i] = A[i] >> 1
                C[2, i] = -A[i]
                C[3, i] = ~A[i]
                C[4, i] = +A[i]
                C[5, i] = B[i] + B[i]
                D[0, i] = ~B[i]
                D[1, i] = not B[i]
                D[2, i] = B[i] ^ True
                D[3, i] = B[i] & (A[i] > 0) | (A[i] == -7)

    a, b = torch.tensor([-7, -1, 0, 9], dtype=torch.int32), torch.tensor([True, False, True, True])
    c, d = torch.zeros((6, 4), dtype=torch.int32), torch.zeros((4, 4), dtype=torch.bool)
    tl.compile(kernel, target="interpret")(a, b, c, d)
    assert c.tolist() == [(a << 2).tolist(), (a >> 1).tolist(), (-a).tolist(), (~a).tolist(), a.tolist(), [2, 0, 2, 2]]
    assert d.tolist() == [(~b).tolist()] * 3 + [(b & (a > 0) | (a == -7)).tolist()]


@pytest.mark.parametrize(
    ("expression", "error", "word"),
    [
        (lambda i, x: i / 2, AmbiguousDivisionError, "//"),
        (lambda i, x: 2 / i, AmbiguousDivisionError, "//"),
        (lambda i, x: x // 2, OperandError, "T.floor"),
        (lambda i, x: x % 2, OperandError, "T.fmod"),
        (lambda i, x: x & 1, OperandError, "floats"),
        (lambda i, x: ~x, OperandError, "float"),
        (lambda i, x: x << 1, OperandError, "floats"),
        (lambda i, x: i << 32, OperandError, "shift"),
        (lambda i, x: i**2, OperandError, "T.pow"),
        (lambda i, x: 2**i, OperandError, "T.pow"),
        (lambda i, x: i @ i, OperandError, "T.gemm"),
        (lambda i, x: i // 0, DivisionByZeroError, "0"),
        (lambda i, x: i % 0, DivisionByZeroError, "0"),
        (lambda i, x: i + "a", OperandError, "str"),
        (lambda i, x: i + 1j, OperandError, "complex"),
        (lambda i, x: i + torch.zeros(2), OperandError, "torch"),
        (lambda i, x: torch.zeros(2) + i, (OperandError, TypeError), ""),
        (lambda i, x: i + None, OperandError, "None"),
        (lambda i, x: i == "a", OperandError, "str"),
        (lambda i, x: bool(i), DeviceValueAsBoolError, "T.max"),
        (lambda i, x: max(i, 3), DeviceValueAsBoolError, "T.max"),
        (lambda i, x: min([i, x]), DeviceValueAsBoolError, "T.min"),
        (lambda i, x: sorted([i, x]), DeviceValueAsBoolError, ""),
        (lambda i, x: abs(i), DeviceValueAsNumberError, "T.abs"),
        (lambda i, x: round(x), DeviceValueAsNumberError, "T.round"),
        (lambda i, x: int(x), DeviceValueAsNumberError, "T.cast"),
        (lambda i, x: float(i), DeviceValueAsNumberError, "T.cast"),
        (lambda i, x: len(i), DeviceValueAsNumberError, ""),
        (lambda i, x: list(i), DeviceValueAsNumberError, ""),
        (lambda i, x: [1, 2][i], DeviceValueAsNumberError, "buffer"),
        (lambda i, x: "ab"[i], DeviceValueAsNumberError, "buffer"),
        (lambda i, x: range(i), DeviceValueAsNumberError, "T.serial"),
        (lambda i, x: math.sqrt(x), DeviceValueAsNumberError, "T.cast"),
        (lambda i, x: 3 in i, DeviceValueAsNumberError, ""),
    ],
)
def test_what_python_may_not_ask(expression, error, word):
    with pytest.raises(error) as caught:
        expression(var("int32", "i"), var("float32", "x"))
    assert word in str(caught.value)
    if isinstance(caught.value, TileError):
        assert caught.value.remedy


def test_values_compare_with_none_and_serve_as_keys():
    i = var("int32")
    assert (i == None) is False  # noqa: E711
    assert (i != None) is True  # noqa: E711
    a = buffer(4)
    assert {a: 1, i: 2}[a] == 1


def test_buffers_tell_their_facts():
    a = buffer(4, 8, dtype="float16")
    assert (a.shape, a.ndim, a.name, a.scope, a.dtype.itemsize) == ((4, 8), 2, "A", "global", 2)
    assert all(isinstance(extent, int) for extent in a.shape)
    for question in (len, list, bool):
        if question is bool:
            continue
        with pytest.raises(DeviceValueAsNumberError):
            question(a)


def test_whole_buffers_and_regions_have_no_operators():
    a = buffer(4, 8)
    for value in (a, a[0:2, :]):
        for operation in (operator.add, operator.mul, operator.gt, operator.floordiv, operator.and_, operator.matmul):
            for arguments in ((value, 2), (2, value)):
                with pytest.raises(OperandError, match="whole buffer or region A"):
                    operation(*arguments)
        with pytest.raises(OperandError):
            -value
    assert a == a
    assert (a == buffer(4, 8)) is False


def test_scalars_have_no_elements():
    with pytest.raises(IndexCountError, match="index a buffer"):
        var("int32")[0]


def test_indexing():
    a = buffer(4, 8)
    i = var("int32")
    element = a[i, 3]
    assert isinstance(element, Element)
    assert (str(element), element.dtype) == ("A[i, 3]".replace("i", "x"), "float32")
    assert a[-1, -8].indices == (3, 0)
    region = a[i * 2 : i * 2 + 2, :]
    assert isinstance(region, Region)
    assert (region.extents, region.kept, region.shape) == ((2, 8), (True, True), (2, 8))
    row = a[1, 2:]
    assert (row.starts, row.extents, row.kept, row.shape, row.ndim) == ((1, 2), (1, 6), (False, True), (6,), 1)
    assert a[-2:, 0].starts == (2, 0)
    assert a[0:1, 8:8].shape == (1, 0)


def test_regions_whose_length_is_an_expression():
    a, n = buffer(64), var("int32", "n")
    assert str(a[n:].extents[0]) == "64 - n"
    assert str(a[: n + 1].extents[0]) == "n + 1"
    assert a[n : n + 16].extents == (16,)
    assert a[n * 16 : (n + 1) * 16].extents == (16,)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ((4, 0), IndexRangeError),
        ((0, -9), IndexRangeError),
        ((0,), IndexCountError),
        ((0, 0, 0), IndexCountError),
        ((slice(3, 1), 0), IndexRangeError),
        ((slice(0, 4, 2), 0), IndexCountError),
        ((slice(-9, 2), 0), IndexRangeError),
        ((..., 0), IndexCountError),
        ((None, 0), IndexCountError),
        ((1.5, 0), IndexCountError),
        (("x", 0), IndexCountError),
        ((True, 0), IndexCountError),
        (([0, 1], 0), IndexCountError),
    ],
)
def test_indices_that_are_none(key, error):
    with pytest.raises(error) as caught:
        buffer(4, 8)[key]
    assert "A" in str(caught.value)
    assert caught.value.remedy
    assert isinstance(caught.value, IndexError)


def test_device_indices_are_integers():
    with pytest.raises(IndexCountError, match="T.cast"):
        buffer(4)[var("float32")]


def test_slices_hang_over_the_edge_of_tensors_only():
    tile = Buffer(tirx.decl_buffer((4,), "float32", "S", scope="shared.dyn"))
    assert buffer(4)[0:8].shape == (8,)
    with pytest.raises(IndexRangeError, match="S"):
        tile[0:8]
    with pytest.raises(IndexRangeError):
        buffer(4)[6:8]


def test_casts_of_numbers():
    assert int(unwrap_cast(-1, DType("uint8")).value) == 255
    assert int(unwrap_cast(2.9, DType("int32")).value) == 2
    assert int(unwrap_cast(-2.9, DType("int32")).value) == -2
    assert int(unwrap_cast(0.5, DType("bool")).value) == 1
    assert float(unwrap_cast(1.1, DType("float16")).value) == float(np.float16(1.1))
    assert T.float16(2).dtype == "float16"
    with pytest.raises(DTypeCallError):
        T.float16(1, 2)


@settings(deadline=None, max_examples=200)
@given(st.floats(allow_nan=False, width=64), st.sampled_from(["float16", "bfloat16", "float32", "float8_e5m2"]))
def test_float_constants_are_rounded_to_their_dtype(value, name):
    dtype = DType(name)
    with np.errstate(over="ignore"):
        expected = float(np.float64(value).astype(dtype.numpy))
    if math.isfinite(value) and not math.isfinite(expected):
        with pytest.raises(ConstantRangeError):
            constant(value, dtype)
    else:
        assert float(constant(value, dtype).value) == expected


@pytest.mark.parametrize(
    ("signed", "unsigned"), [("int8", "uint8"), ("int8", "uint32"), ("int16", "uint16"), ("int32", "uint32")]
)
def test_signed_and_unsigned_are_compared_and_divided_exactly(signed, unsigned):
    @T.prim_func
    def kernel(A: T.Tensor((4,), signed), B: T.Tensor((4,), unsigned), C: T.Tensor((4, 4), T.int64)):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                C[0, i] = A[i] < B[i]
                C[1, i] = A[i] == B[i]
                C[2, i] = A[i] // B[i]
                C[3, i] = A[i] % B[i]

    a = torch.tensor([-1, -7, 5, -128], dtype=DType(signed).torch)
    b = torch.tensor([1, 2, 5, 3], dtype=torch.int64).to(DType(unsigned).torch)
    c = torch.zeros((4, 4), dtype=torch.int64)
    tl.compile(kernel, target="interpret")(a, b, c)
    x, y = a.tolist(), b.tolist()
    assert c[0].tolist() == [int(p < q) for p, q in zip(x, y, strict=True)]
    assert c[1].tolist() == [int(p == q) for p, q in zip(x, y, strict=True)]
    assert c[2].tolist() == [p // q for p, q in zip(x, y, strict=True)]
    assert c[3].tolist() == [p % q for p, q in zip(x, y, strict=True)]
    with pytest.raises(OperandError, match="uint64"):
        _ = var("int64") < var("uint64")
