"""int4, uint4, float4, float6 and tfloat32 on the CPU: the numbers of the interpreter, the bytes of the caller."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.dtypes import DType, casts
from tile_core.errors import DataTypeUnsupportedError

PACKED = ["int4", "uint4", "float4_e2m1fn"]
TILES = [*PACKED, "float4_e2m1_unpacked", "float6_e2m3fn", "float6_e3m2fn", "tfloat32"]


def both(program, *arguments):
    """Run on the interpreter and on the CPU, each with its own copy of the arguments."""
    results = []
    for target in ("interpret", "cpu"):
        given = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
        tl.compile(program, target=target)(*given)
        results.append(given)
    return results


def assert_same(results):
    for left, right in zip(*results, strict=True):
        if isinstance(left, torch.Tensor):
            torch.testing.assert_close(right, left, rtol=0, atol=0, equal_nan=True)


def some_bytes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8).view(torch.int8)


SPECIAL = [
    0.0,
    -0.0,
    0.3,
    -0.3,
    1.25,
    1.75,
    2.5,
    -2.5,
    7.4,
    7.5,
    -8.6,
    1e4,
    -1e4,
    float("inf"),
    float("-inf"),
    float("nan"),
]


@pytest.mark.parametrize("dtype", TILES)
def test_conversions_through_a_tile(dtype):
    """Of all of float16, which lies halfway between each two neighbours of the narrow types, and of larger numbers."""
    halves = torch.arange(1 << 16).to(torch.int16).view(torch.float16).float()
    A = torch.cat([torch.tensor(SPECIAL), halves])
    n = len(A)

    @T.prim_func
    def through(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((n,), dtype)
            for i in T.Parallel(n):
                tile[i] = A[i]
            for i in T.Parallel(n):
                B[i] = tile[i]

    results = both(through, A, torch.zeros(n))
    assert_same(results)
    with np.errstate(all="ignore"):
        narrow = casts.cast(A.numpy(), DType("float32"), DType(dtype))
        assert np.array_equal(results[1][1].numpy(), casts.cast(narrow, DType(dtype), DType("float32")), equal_nan=True)


@pytest.mark.parametrize("source", ["int8", "int32", "uint8", "int64"])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_integers_wrap(dtype, source):
    @T.prim_func
    def through(A: T.Tensor((256,), source), B: T.Tensor((256,), source)):
        with T.Kernel(1):
            tile = T.alloc_shared((256,), dtype)
            T.copy(A, tile)
            T.copy(tile, B)

    A = torch.arange(256).to(DType(source).torch)
    assert_same(both(through, A, torch.zeros_like(A)))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "tfloat32", "float4_e2m1fn", "float6_e3m2fn"])
def test_arithmetic_fits_its_type(dtype):
    n = 256

    @T.prim_func
    def compute(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n, 4), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                a = T.cast(A[i], dtype)
                b = T.cast(B[i], dtype)
                C[i, 0] = a + b
                C[i, 1] = a * b
                C[i, 2] = T.if_then_else(a < b, a - b, b)
                C[i, 3] = a + T.cast(3, dtype)

    A, B = (torch.randn(n) * 4).round() + torch.rand(n), (torch.randn(n) * 3).round()
    assert_same(both(compute, A, B, torch.zeros(n, 4)))


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("dtype", PACKED)
def test_a_round_trip_keeps_the_bytes(dtype, threads):
    @T.prim_func
    def copy(A: T.Tensor((128,), dtype), B: T.Tensor((128,), dtype)):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((128,), dtype)
            T.copy(A, tile)
            T.copy(tile, B)

    A = some_bytes(64)
    for given in both(copy, A, some_bytes(64)):
        assert torch.equal(given[1], A)


@pytest.mark.parametrize("dtype", PACKED)
def test_blocks_that_meet_inside_a_byte(dtype):
    n, block = 6000, 3

    @T.prim_func
    def copy(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(n // block) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]

    A = some_bytes(n // 2)
    for given in both(copy, A, some_bytes(n // 2)):
        assert torch.equal(given[1], A)


def test_symbolic_and_strided_tensors():
    n, s = T.dynamic("n"), T.dynamic("s")

    @T.prim_func
    def widen(A: T.StridedTensor((3, n), (s, 1), "int4"), B: T.Tensor((3, n), "int32")):
        with T.Kernel(3) as row:
            for j in T.serial(n):
                B[row, j] = A[row, j] + 0

    whole = some_bytes(3, 9)
    results = []
    for target in ("interpret", "cpu"):
        B = torch.zeros(3, 10, dtype=torch.int32)
        tl.compile(widen, target=target)(whole[:, :5], B)
        results.append([B])
    assert_same(results)
    low = (whole[:, :5].int() << 28) >> 28
    assert torch.equal(results[1][0][:, 0::2], low)


def test_partial_writes_leave_the_other_half():
    @T.prim_func
    def write(B: T.Tensor((8,), "uint4")):
        with T.Kernel(1):
            B[3] = 5
            B[4] = 9

    B = torch.full((4,), 0x21, dtype=torch.uint8).view(torch.int8)
    for given in both(write, B):
        assert given[0].view(torch.uint8).tolist() == [0x21, 0x51, 0x29, 0x21]


def test_two_launches_use_one_tensor():
    @T.prim_func
    def twice(A: T.Tensor((32,), "int4"), B: T.Tensor((32,), "int4")):
        with T.Kernel(1):
            T.copy(A, B)
        with T.Kernel(1):
            for i in T.Parallel(32):
                B[i] = B[i] << A[i] % 2

    assert_same(both(twice, some_bytes(16), some_bytes(16)))


def test_tfloat32_tensors_and_scalars():
    @T.prim_func
    def scale(A: T.Tensor((100,), "tfloat32"), B: T.Tensor((100,), "tfloat32"), factor: T.int4):
        with T.Kernel(1):
            for i in T.Parallel(100):
                B[i] = A[i] * T.cast(factor, "tfloat32")

    A = torch.from_numpy(casts.cast(torch.randn(100).numpy(), DType("float32"), DType("tfloat32")))
    results = both(scale, A, torch.zeros(100), 3)
    assert_same(results)
    assert not (results[1][1].view(torch.int32) & 0x1FFF).any()


def test_refusals():
    def vectors():
        @T.prim_func
        def program(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((4,), "tfloat32x2")
                tile[0] = T.tfloat32x2(A[0], A[1])
                A[2] = T.cast(T.extract_lane(tile[0], 0), "float32")

        return program

    def tensors():
        @T.prim_func
        def program(A: T.Tensor((8,), "float4_e2m1_unpacked"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.copy(A, B)

        return program

    for program, name in ((vectors, "tfloat32x2"), (tensors, "float4_e2m1_unpacked")):
        with pytest.raises(DataTypeUnsupportedError, match=name):
            tl.compile(program(), target="cpu")
