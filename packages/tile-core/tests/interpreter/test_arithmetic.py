"""Arithmetic of every dtype against torch and Python, in uniform code and over an iteration space."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import torch

import tile_core.language as T
from tile_core.dtypes import DType, casts
from tile_core.errors import DeviceDivisionError

FLOATS = ["float16", "bfloat16", "float32", "float64"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.0, 3.0, float("inf"), float("-inf"), float("nan"), 1e-3, 100.0, -7.0]
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, "==": operator.eq, "!=": operator.ne}


def binary_program(n, dtype, result, function, parallel):
    @T.prim_func
    def over(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), result)):
        with T.Kernel(1):
            if parallel:
                for i in T.Parallel(n):
                    C[i] = function(A[i], B[i])
            else:
                for i in T.serial(n):
                    C[i] = function(A[i], B[i])

    return over


def pairs(values):
    left = torch.tensor([a for a in values for _ in values], dtype=torch.float64)
    right = torch.tensor([b for _ in values for b in values], dtype=torch.float64)
    return left, right


def check(actual, expected):
    torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("symbol", [*OPERATORS, "/"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_operators_round_once(interpret, nan, dtype, symbol, parallel):
    function = OPERATORS.get(symbol, operator.truediv)
    kind = DType(dtype).torch
    left, right = (side.to(kind) for side in pairs(SPECIAL))
    C = nan(left.numel(), dtype=dtype)
    interpret(binary_program(left.numel(), dtype, dtype, function, parallel), left, right, C)
    check(C, function(left, right))


@pytest.mark.parametrize("symbol", [*OPERATORS, "/"])
@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_compute_in_float32_and_saturate(interpret, nan, dtype, symbol):
    function = OPERATORS.get(symbol, operator.truediv)
    kind = DType(dtype)
    left, right = (side.float().to(kind.torch) for side in pairs(SPECIAL))
    C = torch.zeros(left.numel()).to(kind.torch)
    interpret(binary_program(left.numel(), dtype, dtype, function, True), left, right, C)
    with np.errstate(all="ignore"):
        wanted = casts.cast(function(left.float(), right.float()).numpy(), DType("float32"), kind)
    check(C.float(), torch.from_numpy(wanted.astype(np.float32)))


@pytest.mark.parametrize("symbol", COMPARISONS)
@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e4m3fn"])
def test_comparisons_with_nan(interpret, dtype, symbol):
    kind = DType(dtype).torch
    left, right = (side.float().to(kind) for side in pairs(SPECIAL))
    C = torch.zeros(left.numel(), dtype=torch.bool)
    interpret(binary_program(left.numel(), dtype, "bool", COMPARISONS[symbol], True), left, right, C)
    assert torch.equal(C, COMPARISONS[symbol](left.double(), right.double()))


def test_nan_is_not_itself(interpret):
    @T.prim_func
    def program(A: T.Tensor((2,), "float32"), B: T.Tensor((2,), "bool")):
        with T.Kernel(1):
            for i in T.Parallel(2):
                B[i] = A[i] != A[i]

    B = torch.zeros(2, dtype=torch.bool)
    interpret(program, torch.tensor([1.0, float("nan")]), B)
    assert B.tolist() == [False, True]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("symbol", [*OPERATORS, "&", "|", "^"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(interpret, dtype, symbol, parallel):
    function = OPERATORS.get(symbol) or {"&": operator.and_, "|": operator.or_, "^": operator.xor}[symbol]
    kind = DType(dtype)
    edges = [int(kind.min), int(kind.min) + 1, 0, 1, 5, int(kind.max) - 1, int(kind.max)]
    left = np.array([a for a in edges for _ in edges], kind.numpy)
    right = np.array([b for _ in edges for b in edges], kind.numpy)
    C = np.zeros_like(left)
    interpret(binary_program(left.size, dtype, dtype, function, parallel), left, right, C)
    span = 1 << kind.bits
    wanted = [
        (function(int(a), int(b)) - int(kind.min)) % span + int(kind.min) for a, b in zip(left, right, strict=True)
    ]
    assert C.tolist() == wanted


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integer_division_floors_and_truncdiv_truncates(interpret, dtype, parallel):
    values = [(a, b) for a in range(-7, 8) for b in (3, -3)]
    A, B = (np.array(side, dtype) for side in zip(*values, strict=True))
    wanted = {
        operator.floordiv: [a // b for a, b in values],
        operator.mod: [a % b for a, b in values],
        T.truncdiv: [int(a / b) for a, b in values],
        T.truncmod: [a - b * int(a / b) for a, b in values],
    }
    for function, expected in wanted.items():
        C = np.zeros_like(A)
        interpret(binary_program(A.size, dtype, dtype, function, parallel), A, B, C)
        assert C.tolist() == expected


@pytest.mark.parametrize("parallel", [True, False])
def test_division_by_zero_names_the_iteration(interpret, parallel):
    A, B, C = np.ones(4, np.int32), np.array([1, 2, 0, 3], np.int32), np.zeros(4, np.int32)
    with pytest.raises(DeviceDivisionError, match="divided by zero.*=2"):
        interpret(binary_program(4, "int32", "int32", operator.floordiv, parallel), A, B, C)


def test_a_guarded_division_by_zero_is_not_evaluated(interpret):
    @T.prim_func
    def program(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = T.if_then_else(A[i] != 0, 12 // A[i], -1)
                if A[i] != 0:
                    B[i] = B[i] + 12 % A[i]

    B = np.zeros(4, np.int32)
    interpret(program, np.array([0, 5, -5, 0], np.int32), B)
    assert B.tolist() == [-1, 4, -6, -1]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_shifts(interpret, dtype):
    A, B = np.array([-128, -1, 1, 127], dtype), np.array([1, 3, 4, 2], dtype)
    for function, torch_function in (
        (operator.lshift, torch.bitwise_left_shift),
        (operator.rshift, torch.bitwise_right_shift),
    ):
        C = np.zeros_like(A)
        interpret(binary_program(4, dtype, dtype, function, True), A, B, C)
        assert C.tolist() == torch_function(torch.from_numpy(A), torch.from_numpy(B)).tolist()


MATH = "exp exp2 log log2 sqrt rsqrt tanh sigmoid sin cos floor ceil trunc abs erf".split()


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("name", MATH)
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_compute_in_float32_and_convert_back(interpret, nan, dtype, name, parallel):
    kind = DType(dtype).torch
    values = torch.cat([torch.tensor(SPECIAL), torch.linspace(-4, 4, 101)]).to(kind)
    function = getattr(T, name)
    C = nan(values.numel(), dtype=dtype)
    interpret(binary_program(values.numel(), dtype, dtype, lambda a, b: function(a), parallel), values, values, C)
    wide = values.double() if dtype == "float64" else values.float()
    expected = getattr(torch, name)(wide).to(kind)
    tolerance = 1e-12 if dtype == "float64" else 4e-7 if dtype == "float32" else DType(dtype).float_format.epsilon
    torch.testing.assert_close(C.double(), expected.double(), rtol=tolerance, atol=tolerance / 4, equal_nan=True)


def test_round_goes_away_from_zero_and_nearbyint_to_even(interpret, nan):
    values = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0])
    for function, wanted in (
        (T.round, [-3, -2, -1, 1, 2, 3, 0, 8388609]),
        (T.nearbyint, [-2, -2, 0, 0, 2, 2, 0, 8388609]),
    ):
        C = nan(8)
        interpret(binary_program(8, "float32", "float32", lambda a, b, f=function: f(a), True), values, values, C)
        assert C.tolist() == wanted


def test_max_and_min_propagate_nan_on_either_side(interpret, nan):
    left, right = (side.float() for side in pairs(SPECIAL))
    for function, expected in ((T.max, torch.maximum), (T.min, torch.minimum)):
        C = nan(left.numel())
        interpret(binary_program(left.numel(), "float32", "float32", function, True), left, right, C)
        check(C, expected(left, right))


@pytest.mark.parametrize("target", ["int4", "float4_e2m1fn"])
def test_sub_byte_tensors_are_packed_low_half_first(interpret, target):
    @T.prim_func
    def convert(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), target), C: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i]
            for i in T.Parallel(8):
                C[i] = T.cast(B[i], "int32")

    values = torch.tensor([0, 1, 2, 3, 4, 6, -1, -4], dtype=torch.int32)
    packed, back = torch.zeros(4, dtype=torch.int8), torch.zeros(8, dtype=torch.int32)
    interpret(convert, values, packed, back)
    assert torch.equal(back, values)
    low = casts.cast(values.numpy()[:2], DType("int32"), DType(target)).view(np.uint8) & 15
    assert packed.view(torch.uint8)[0].item() == int(low[0]) | int(low[1]) << 4


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "int32", "uint8", "bool", "float8_e5m2"])
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16", "int8", "int64", "bool", "float8_e4m3fn"])
def test_stores_convert_as_the_table_says(interpret, source, target):
    @T.prim_func
    def convert(A: T.Tensor((12,), source), B: T.Tensor((12,), target), C: T.Tensor((12,), target)):
        with T.Kernel(1):
            for i in T.Parallel(12):
                B[i] = A[i]
            T.copy(A, C)

    base = torch.tensor([0, 1, -1, 2.5, -2.5, 300, -300, 0.3, float("nan"), float("inf"), 65504, 1e-3])
    values = casts.cast(base.numpy(), DType("float32"), DType(source))
    with np.errstate(all="ignore"):
        wanted = casts.cast(values, DType(source), DType(target))
    B, C = np.zeros(12, DType(target).numpy), np.zeros(12, DType(target).numpy)
    interpret(convert, values, B, C)
    for got in (B, C):
        assert np.array_equal(got.astype(np.float64), wanted.astype(np.float64), equal_nan=True)


def test_scalar_parameters_of_narrow_types(interpret, nan):
    @T.prim_func
    def program(B: T.Tensor((3,), "float32"), a: T.bfloat16, b: T.uint32, c: T.int64):
        with T.Kernel(1):
            B[0] = a
            B[1] = b
            B[2] = c

    B = nan(3)
    interpret(program, B, 1.5, 7, -3)
    assert B.tolist() == [1.5, 7, -3]
