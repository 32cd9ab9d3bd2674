"""Conversions on the CPU equal the reference of `tile_core.dtypes.casts`, code for code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.dtypes.casts import cast
from tile_core.errors.passes import UnsupportedOnTargetError

EIGHT = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
HALF = ["float16", "bfloat16"]
WIDE = ["float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
POINTS = 1_000_000
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 464.1, 480, 57344, 61440, 65504, 65520, 2.0**31, -(2.0**31)]
SPECIAL += [2.0**63, -(2.0**63), 2.0**64, -1, -0.5, 127.9, 128, -128.9, -129, 255.9, 256, 1e-45, 2.0**-126, 2.0**-127]


def bits_of(array: Any) -> Any:
    """The same memory as unsigned integers."""
    return array.view(f"uint{array.itemsize * 8}")


def inputs(source: str) -> Any:
    """Every code of a dtype of up to 16 bits; random bits and special values of a wider one."""
    dtype = DType(source).numpy
    if DType(source).bits <= 16:
        width = DType(source).bits
        return np.arange(1 << width, dtype=f"uint{width}").view(dtype)
    random = np.random.default_rng(7).integers(0, 256, POINTS * DType(source).bytes, dtype=np.uint8).view(dtype)
    if not DType(source).is_float:
        return random
    return np.concatenate([np.array(SPECIAL, dtype), random])


def compiled(source: str, target: str, size: int) -> Any:
    @T.prim_func
    def convert(A: T.Tensor((size,), source), B: T.Tensor((size,), target)):
        with T.Kernel(T.ceildiv(size, 1024)) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = T.cast(A[bx * 1024 + i], target)

    return tl.compile(convert, target="cpu")


def as_tensor(array: Any, dtype: str) -> Any:
    return torch.from_numpy(array.view(f"int{array.itemsize * 8}" if array.itemsize > 1 else "uint8")).view(
        DType(dtype).torch
    )


def check(source: str, target: str) -> None:
    given = inputs(source)
    expected = cast(given, DType(source), DType(target))
    result = np.full(given.size, 0x55, expected.dtype) if target == "bool" else np.zeros(given.size, expected.dtype)
    compiled(source, target, given.size)(as_tensor(given, source), as_tensor(result, target))
    nan = np.zeros(given.size, bool)
    if DType(target).is_float:
        nan = np.isnan(expected)
        assert np.array_equal(np.isnan(result), nan)
    assert np.array_equal(bits_of(result)[~nan], bits_of(expected)[~nan])


@pytest.mark.parametrize("target", EIGHT[:4] + HALF + WIDE)
@pytest.mark.parametrize("source", EIGHT + HALF + WIDE)
def test_float_to_float(source: str, target: str) -> None:
    if source != target:
        check(source, target)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", HALF + WIDE)
def test_float_to_integer_saturates(source: str, target: str) -> None:
    check(source, target)


@pytest.mark.parametrize("target", HALF + WIDE)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float(source: str, target: str) -> None:
    check(source, target)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer_keeps_the_low_bits(source: str, target: str) -> None:
    if source != target:
        check(source, target)


MODES = [("rn", False), *((mode, saturate) for mode in ("rz", "rp", "rm", "rs") for saturate in (True, False))]
SIGNED = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", *EIGHT[:4], *HALF]


@pytest.mark.parametrize("target", SIGNED)
def test_rounding_modes(target: str) -> None:
    given = np.concatenate([np.array(SPECIAL, "float32"), np.linspace(-500, 500, 20_000, dtype="float32")])
    given = np.concatenate([given, inputs("float32")[:20_000], inputs("float32")[-20_000:]])
    size, storage = given.size, f"uint{DType(target).bits}"
    draws = np.random.default_rng(5).integers(0, 1 << 32, size, dtype=np.uint32)

    @T.prim_func
    def convert(
        A: T.Tensor((size,), "float32"), R: T.Tensor((size,), "uint32"), B: T.Tensor((len(MODES), size), storage)
    ):
        with T.Kernel(T.ceildiv(size, 1024)) as bx:
            for i in T.Parallel(1024):
                for row, (mode, saturate) in enumerate(MODES):
                    value = T.cast(A[bx * 1024 + i], target, round=mode, sat=saturate, rbits=R[bx * 1024 + i])
                    B[row, bx * 1024 + i] = T.reinterpret(value, storage)

    result = np.zeros((len(MODES), size), storage)
    tl.compile(convert, target="cpu")(given, draws, result)
    for row, (mode, saturate) in zip(result, MODES, strict=True):
        random = draws if mode == "rs" else None
        expected = cast(given, DType("float32"), DType(target), rounding=mode, saturate=saturate, random_bits=random)
        number = ~np.isnan(expected)
        assert np.array_equal(np.isnan(row.view(expected.dtype)), ~number), (mode, saturate)
        assert np.array_equal(row[number], bits_of(expected)[number]), (mode, saturate)


@pytest.mark.parametrize("target", ["float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn"])
def test_what_has_no_rounding_mode_is_refused(target: str) -> None:
    @T.prim_func
    def convert(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = T.cast(T.cast(A[i], target, round="rz"), "float32")

    with pytest.raises(UnsupportedOnTargetError, match=f'T.cast to {target} with round="rz"') as caught:
        tl.compile(convert, target="cpu")
    assert caught.value.span is not None


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_a_copy_of_narrow_floats_keeps_every_bit(dtype: str) -> None:
    given = inputs(dtype)
    size = given.size

    @T.prim_func
    def move(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(size):
                B[i] = A[i]

    result = np.zeros_like(given)
    tl.compile(move, target="cpu")(as_tensor(given, dtype), as_tensor(result, dtype))
    assert np.array_equal(bits_of(result), bits_of(given))


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e3m4"])
def test_infinities_that_are_moved_stay_infinities(dtype: str) -> None:
    given = inputs(dtype)

    @T.prim_func
    def move(A: T.Tensor((256,), "uint8"), B: T.Tensor((3, 256), "uint8")):
        with T.Kernel(1):
            variable = T.alloc_var(dtype)
            for i in T.Parallel(256):
                name = T.reinterpret(A[i], dtype)
                B[0, i] = T.reinterpret(name, "uint8")
                B[1, i] = T.reinterpret(T.if_then_else(i % 2 == 0, name, T.reinterpret(A[i], dtype)), "uint8")
            for i in T.serial(256):
                variable = T.reinterpret(A[i], dtype)
                B[2, i] = T.reinterpret(variable, "uint8")

    result = np.zeros((3, 256), "uint8")
    tl.compile(move, target="cpu")(bits_of(given), result)
    number = ~np.isnan(given)
    assert np.array_equal(result[:, number], np.broadcast_to(bits_of(given)[number], (3, number.sum())))
    assert np.isnan(result[:, ~number].view(given.dtype)).all()


def test_every_operation_on_a_bfloat16_rounds() -> None:
    size, dtype = 4096, "bfloat16"

    @T.prim_func
    def chain(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype), C: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, 256)) as bx:
            for i in T.Parallel(256):
                C[bx * 256 + i] = (A[bx * 256 + i] + B[bx * 256 + i]) * A[bx * 256 + i] - B[bx * 256 + i]

    kind = DType(dtype).torch
    a, b, c = torch.randn(size).to(kind), torch.randn(size).to(kind), torch.zeros(size, dtype=kind)
    tl.compile(chain, target="cpu")(a, b, c)
    assert torch.equal(c, (a + b) * a - b)
