"""Integer division, bits and limits: all signs, Python values and device values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import DivisionByZeroError, OpDTypeError, OperandError

PAIRS = list(itertools.product(range(-7, 8), (3, -3, 1, -1, 7)))
MEANING = {
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: math.trunc(a / b),
    "truncmod": lambda a, b: int(math.fmod(a, b)),
    "ceildiv": lambda a, b: -(-a // b),
    "cdiv": lambda a, b: -(-a // b),
    "align_up": lambda a, b: -(-a // b) * b,
}


@pytest.mark.parametrize("name", MEANING)
def test_division_of_device_values(evaluate: Any, name: str) -> None:
    a, b = (torch.tensor(column, dtype=torch.int32) for column in zip(*PAIRS, strict=True))
    if name in ("ceildiv", "cdiv", "align_up"):
        # (a + b - 1) // b is the ceiling for positive divisors, which sizes are.
        a, b = a[b > 0], b[b > 0]
    expected = [MEANING[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert evaluate(getattr(T, name), a, b).tolist() == expected


@pytest.mark.parametrize("name", MEANING)
def test_division_of_python_values(name: str) -> None:
    for a, b in PAIRS:
        found = getattr(T, name)(a, b)
        assert isinstance(found, int)
        assert found == MEANING[name](a, b)


def test_floor_operators(evaluate: Any) -> None:
    a, b = (torch.tensor(column, dtype=torch.int32) for column in zip(*PAIRS, strict=True))
    assert evaluate(lambda x, y: x // y, a, b).tolist() == [x // y for x, y in PAIRS]
    assert evaluate(lambda x, y: x % y, a, b).tolist() == [x % y for x, y in PAIRS]


def test_index_to_coordinates(evaluate: Any) -> None:
    assert T.index_to_coordinates(17, (2, 3, 4)) == [1, 1, 1]
    x = torch.arange(24, dtype=torch.int32)
    found = evaluate(
        lambda i: sum(c * w for c, w in zip(T.index_to_coordinates(i, (2, 3, 4)), (100, 10, 1), strict=True)), x
    )
    assert found.tolist() == [100 * i + 10 * j + k for i in range(2) for j in range(3) for k in range(4)]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_bits(evaluate: Any, dtype: torch.dtype) -> None:
    width = torch.iinfo(dtype).bits
    values = [0, 1, 2, 5, 100, torch.iinfo(dtype).max] + (
        [-1, -5, torch.iinfo(dtype).min] if dtype.is_signed else [255]
    )
    x = torch.tensor(values, dtype=dtype)
    unsigned = [value % (1 << width) for value in values]
    assert evaluate(T.popcount, x, dtype=torch.int32).tolist() == [value.bit_count() for value in unsigned]
    assert evaluate(T.clz, x, dtype=torch.int32).tolist() == [width - value.bit_length() for value in unsigned]
    assert torch.equal(evaluate(T.bitwise_not, x), ~x)
    for name, function in (("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor)):
        assert torch.equal(evaluate(getattr(T, f"bitwise_{name}"), x, x.flip(0)), function(x, x.flip(0)))
    assert torch.equal(evaluate(lambda v: T.shift_left(v, 3), x), x << 3)
    assert torch.equal(evaluate(lambda v: T.shift_right(v, 3), x), x >> 3)


def test_bits_of_bool_are_logical(evaluate: Any) -> None:
    a, b = torch.tensor([0, 0, 1, 1]).bool(), torch.tensor([0, 1, 0, 1]).bool()
    assert torch.equal(evaluate(T.bitwise_and, a, b), a & b)
    assert torch.equal(evaluate(T.bitwise_xor, a, b), a ^ b)
    assert torch.equal(evaluate(T.bitwise_not, a), ~a)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint16", "int64", "float8_e4m3fn"]
)
def test_limits(dtype: str) -> None:
    info = torch.finfo(getattr(torch, dtype)) if "float" in dtype else torch.iinfo(getattr(torch, dtype))

    @T.prim_func
    def kernel(A: T.Tensor((2,), "float64")):
        with T.Kernel(1):
            A[0] = T.max_value(dtype)
            A[1] = T.min_value(dtype)

    from tile_core.interpreter import Program

    found = torch.zeros(2, dtype=torch.float64)
    Program(kernel)(found)
    assert found.tolist() == [float(info.max), float(info.min)]


def test_infinity() -> None:
    assert str(T.infinity("float32")) == 'T.float32("inf")'
    for dtype in ("int32", "float8_e4m3fn"):
        with pytest.raises(OpDTypeError, match=dtype):
            T.infinity(dtype)


def test_refusals() -> None:
    with pytest.raises(DivisionByZeroError, match="ceildiv"):
        T.ceildiv(4, 0)
    with pytest.raises(OpDTypeError, match=r"truncdiv.*float32"):
        T.truncdiv(T.float32(1.0), 2)
    with pytest.raises(OperandError):
        T.float32(1.0) % 2
    with pytest.raises(OpDTypeError, match="clz"):
        T.clz(T.float32(1.0))
