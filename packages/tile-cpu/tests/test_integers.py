"""Integer arithmetic on the CPU is numpy's: sums wrap, division floors, nothing ends the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZE = 1000
Binary = Callable[[Any, Any], Any]


def operands(dtype: str) -> tuple[Any, Any]:
    limits, random = np.iinfo(dtype), np.random.default_rng(3)
    a, b = (random.integers(limits.min, limits.max, SIZE, dtype, endpoint=True) for _ in range(2))
    edges = [limits.min, limits.max, 0, 1, limits.max - 1]
    pairs = np.array([(x, y) for x in edges for y in edges], dtype)
    a[: len(pairs)], b[: len(pairs)] = pairs[:, 0], pairs[:, 1]
    return a, b


def run(dtype: str, expr: Binary) -> tuple[Any, Any, Any]:
    @T.prim_func
    def kernel(A: T.Tensor((SIZE,), dtype), B: T.Tensor((SIZE,), dtype), C: T.Tensor((SIZE,), dtype)):
        with T.Kernel(T.ceildiv(SIZE, 256)) as bx:
            for i in T.Parallel(256):
                C[bx * 256 + i] = expr(A[bx * 256 + i], B[bx * 256 + i])

    a, b = operands(dtype)
    c = np.full(SIZE, 99, dtype)
    tl.compile(kernel, target="cpu")(a, b, c)
    return a, b, c


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_products_wrap(dtype: str) -> None:
    one, four = np.array(1, dtype), np.array(4, dtype)
    cases: dict[str, tuple[Binary, Binary]] = {
        "sum": (lambda x, y: x + y, lambda x, y: x + y),
        "difference": (lambda x, y: x - y, lambda x, y: x - y),
        "product": (lambda x, y: x * y, lambda x, y: x * y),
        "x + 1 > x": (lambda x, y: T.cast(x + 1 > x, dtype), lambda x, y: (x + one > x).astype(dtype)),
        "x * 4 // 4": (lambda x, y: x * 4 // 4, lambda x, y: x * four // four),
        "x - y < x": (lambda x, y: T.cast(x - y < x, dtype), lambda x, y: (x - y < x).astype(dtype)),
        "hash": (lambda x, y: ((x * 31 + y) ^ (x >> 3)) * 7, lambda x, y: ((x * 31 + y) ^ (x >> 3)) * 7),
    }
    for name, (ours, numpys) in cases.items():
        a, b, c = run(dtype, ours)
        with np.errstate(over="ignore"):
            assert np.array_equal(c, numpys(a, b).astype(dtype)), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_floors_and_by_zero_gives_zero(dtype: str) -> None:
    for ours, numpys in ((lambda x, y: x // y, np.floor_divide), (lambda x, y: x % y, np.mod)):
        a, b, c = run(dtype, ours)
        assert (b == 0).any()
        with np.errstate(divide="ignore", over="ignore"):
            assert np.array_equal(c, numpys(a, b))


@pytest.mark.parametrize("divisor", [3, -3, 7, -1])
def test_division_by_a_constant(divisor: int) -> None:
    values = np.arange(-500, 500, dtype=np.int32)

    @T.prim_func
    def kernel(A: T.Tensor((SIZE,), "int32"), Out: T.Tensor((4, SIZE), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(SIZE):
                Out[0, i] = A[i] // divisor
                Out[1, i] = A[i] % divisor
                Out[2, i] = T.truncdiv(A[i], divisor)
                Out[3, i] = T.truncmod(A[i], divisor)

    out = np.zeros((4, SIZE), np.int32)
    tl.compile(kernel, target="cpu")(values, out)
    truncated = np.trunc(values / divisor).astype(np.int32)
    assert np.array_equal(out, [values // divisor, values % divisor, truncated, values - truncated * divisor])


def test_hashes_of_indices_wrap() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((SIZE,), "uint32"), seed: T.uint32):
        with T.Kernel(T.ceildiv(SIZE, 256)) as bx:
            for i in T.Parallel(256):
                Out[bx * 256 + i] = (T.cast(bx * 256 + i, "uint32") ^ seed) * T.uint32(2654435769) + T.uint32(12345)

    out = np.zeros(SIZE, np.uint32)
    tl.compile(kernel, target="cpu")(out, 7)
    with np.errstate(over="ignore"):
        expected = (np.arange(SIZE, dtype=np.uint32) ^ np.uint32(7)) * np.uint32(2654435769) + np.uint32(12345)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("source", ["uint32", "int64", "int16", "uint8"])
@pytest.mark.parametrize("target", ["int8", "int16", "int32"])
def test_division_of_a_converted_value_floors(source: str, target: str) -> None:
    """A conversion keeps the low bits, so the dividend may be negative where the source is not."""

    @T.prim_func
    def kernel(A: T.Tensor((SIZE,), source), B: T.Tensor((SIZE,), target), C: T.Tensor((SIZE,), target)):
        with T.Kernel(1):
            for i in T.Parallel(SIZE):
                B[i] = T.cast(A[i], target) // 7
                C[i] = T.cast(A[i], target) % 8

    a, _ = operands(source)
    b, c = np.zeros(SIZE, target), np.zeros(SIZE, target)
    tl.compile(kernel, target="cpu")(a, b, c)
    narrow = a.astype(target)
    assert np.array_equal(b, narrow // np.array(7, target))
    assert np.array_equal(c, narrow % np.array(8, target))


def test_an_index_that_wraps_is_outside() -> None:
    @T.prim_func
    def kernel(At: T.Tensor((4,), "int32"), Unsigned: T.Tensor((4,), "uint32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                at = At[i]
                if at >= 0:
                    B[at + 1] = 1
                B[T.cast(Unsigned[i], "int32")] = 2

    b = np.zeros(8, np.int32)
    at = np.array([0, 2**31 - 1, 5, 2**31 - 2], np.int32)
    unsigned = np.array([2**32 - 1, 2**31, 3, 2**32 - 4], np.uint32)
    tl.compile(kernel, target="cpu")(at, unsigned, b)
    assert b.tolist() == [0, 1, 0, 2, 0, 0, 1, 0]
