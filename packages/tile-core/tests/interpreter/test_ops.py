"""Tile ops of every kind and dtype against torch, run through the interpreter's regions and checks."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.dtypes import DType

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
SHAPES = [(1, 1), (3, 7), (5, 33), (16, 64)]


def tensor(shape, dtype):
    kind = DType(dtype).torch
    if DType(dtype).is_float:
        return torch.randn(shape).to(kind)
    low = 0 if DType(dtype).is_unsigned else -5
    return torch.randint(low, 6, shape).to(kind)


def close(actual, expected, dtype):
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def reduction(name, shape, dim, dtype, scope, clear=True):
    kept = tuple(extent for axis, extent in enumerate(shape) if axis != dim)

    @T.prim_func
    def program(A: T.Tensor(shape, dtype), B: T.Tensor(kept, dtype)):
        with T.Kernel(1):
            tile = scope(shape, dtype)
            out = scope(kept, dtype)
            T.copy(A, tile)
            T.copy(B, out)
            if name == "abssum":
                T.reduce_abssum(tile, out, dim=dim)
            else:
                getattr(T, f"reduce_{name}")(tile, out, dim=dim, clear=clear)
            T.copy(out, B)

    return program


REDUCTIONS = {
    "sum": lambda x, dim: x.sum(dim),
    "max": lambda x, dim: x.amax(dim),
    "min": lambda x, dim: x.amin(dim),
    "abssum": lambda x, dim: x.abs().sum(dim),
    "absmax": lambda x, dim: x.abs().amax(dim),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_reductions(interpret, name, dtype):
    wide = torch.float64 if DType(dtype).is_float else torch.int64
    for shape in SHAPES:
        for dim in (0, 1):
            A, B = tensor(shape, dtype), torch.zeros(shape[1 - dim]).to(DType(dtype).torch)
            interpret(reduction(name, shape, dim, dtype, T.alloc_fragment), A, B)
            expected = REDUCTIONS[name](A.to(wide), dim).to(DType(dtype).torch)
            close(B, expected, dtype)


@pytest.mark.parametrize(("name", "function"), [("sum", torch.add), ("max", torch.maximum), ("min", torch.minimum)])
def test_reductions_that_continue(interpret, name, function):
    A, B = tensor((4, 9), "float32"), tensor((4,), "float32")
    expected = function(B, REDUCTIONS[name](A, 1))
    interpret(reduction(name, (4, 9), 1, "float32", T.alloc_shared, clear=False), A, B)
    close(B, expected, "float32")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64"])
def test_scans(interpret, dtype, dim, reverse):
    @T.prim_func
    def program(A: T.Tensor((6, 35), dtype), B: T.Tensor((6, 35), dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared((6, 35), dtype)
            T.copy(A, tile)
            T.cumsum(tile, dim=dim, reverse=reverse)
            T.copy(tile, B)

    A, B = tensor((6, 35), dtype), torch.zeros(6, 35).to(DType(dtype).torch)
    interpret(program, A, B)
    source = A.double().flip(dim) if reverse else A.double()
    expected = source.cumsum(dim)
    close(B, expected.flip(dim) if reverse else expected, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_gemm_operands(interpret, dtype, transposed):
    M, N, K = 12, 20, 28
    shapes = ((K, M) if transposed[0] else (M, K)), ((N, K) if transposed[1] else (K, N))
    accumulator = "float64" if dtype == "float64" else "float32"

    @T.prim_func
    def program(A: T.Tensor(shapes[0], dtype), B: T.Tensor(shapes[1], dtype), C: T.Tensor((M, N), accumulator)):
        with T.Kernel(1):
            a = T.alloc_shared(shapes[0], dtype)
            b = T.alloc_shared(shapes[1], dtype)
            c = T.alloc_fragment((M, N), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1.0)
            T.gemm(a, b, c, transpose_A=transposed[0], transpose_B=transposed[1])
            T.copy(c, C)

    A, B = (torch.randn(shape).to(DType(dtype).torch) for shape in shapes)
    C = torch.zeros(M, N, dtype=getattr(torch, accumulator))
    interpret(program, A, B, C)
    left, right = (side.double().T if flag else side.double() for side, flag in zip((A, B), transposed, strict=True))
    torch.testing.assert_close(C.double(), left @ right + 1, rtol=1e-5, atol=1e-5)


def test_gemm_of_integers(interpret):
    @T.prim_func
    def program(A: T.Tensor((8, 8), "int8"), B: T.Tensor((8, 8), "int8"), C: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            a = T.alloc_shared((8, 8), "int8")
            b = T.alloc_shared((8, 8), "int8")
            c = T.alloc_fragment((8, 8), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    A, B = (torch.randint(-128, 128, (8, 8), dtype=torch.int8) for _ in range(2))
    C = torch.zeros(8, 8, dtype=torch.int32)
    interpret(program, A, B, C)
    assert torch.equal(C, A.int() @ B.int())


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, "float8_e4m3fn"])
def test_copies_at_every_offset(interpret, dtype):
    @T.prim_func
    def program(A: T.Tensor((10, 13), dtype), B: T.Tensor((10, 13), dtype)):
        with T.Kernel(3, 4) as (bx, by):
            tile = T.alloc_shared((3, 5), dtype)
            T.copy(A[by * 3 : by * 3 + 3, bx * 5 : bx * 5 + 5], tile)
            T.copy(tile, B[by * 3, bx * 5])

    A = (torch.randn(10, 13) > 0) if dtype == "bool" else tensor((10, 13), dtype)
    B = torch.zeros(10, 13).to(DType(dtype).torch)
    interpret(program, A, B)
    assert torch.equal(B.double(), A.double())


def test_a_copy_broadcasts_unit_axes_and_converts(interpret):
    @T.prim_func
    def program(A: T.Tensor((1, 6), "float32"), B: T.Tensor((4, 6), "int32")):
        with T.Kernel(1):
            row = T.alloc_shared((1, 6), "float32")
            tile = T.alloc_fragment((4, 6), "int32")
            T.copy(A, row)
            T.copy(row[0:1, 0:6], tile)
            T.copy(tile, B)

    A, B = torch.tensor([[1.9, -1.9, 0.0, 3e9, -3e9, float("nan")]]), torch.zeros(4, 6, dtype=torch.int32)
    interpret(program, A, B)
    assert B.tolist() == [[1, -1, 0, 2**31 - 1, -(2**31), 0]] * 4


def test_a_larger_destination_keeps_its_other_elements(interpret):
    @T.prim_func
    def program(A: T.Tensor((4,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 9.0)
            T.copy(A[0:4], tile[2:6])
            T.copy(tile, B)

    A, B = torch.randn(4), torch.zeros(8)
    interpret(program, A, B)
    assert torch.equal(B, torch.cat([torch.full((2,), 9.0), A, torch.full((2,), 9.0)]))


def test_overlapping_copies_read_before_they_write(interpret):
    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A, tile)
            T.copy(tile[0:6], tile[2:8])
            T.copy(tile, B)

    A, B = torch.randn(8), torch.zeros(8)
    interpret(program, A, B)
    assert torch.equal(B, torch.cat([A[:2], A[:6]]))


def test_transpose(interpret):
    @T.prim_func
    def program(A: T.Tensor((5, 9), "float32"), B: T.Tensor((9, 5), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((5, 9), "float32")
            flipped = T.alloc_shared((9, 5), "float32")
            T.copy(A, tile)
            T.transpose(tile, flipped)
            T.copy(flipped, B)

    A, B = torch.randn(5, 9), torch.zeros(9, 5)
    interpret(program, A, B)
    assert torch.equal(B, A.T)


@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "int16"])
def test_atomics_on_tiles(interpret, kind, dtype):
    @T.prim_func
    def program(A: T.Tensor((6, 8), dtype), B: T.Tensor((8,), dtype)):
        with T.Kernel(6) as bx:
            row = T.alloc_shared((8,), dtype)
            T.copy(A[bx, 0:8], row)
            getattr(T, f"atomic_{kind}")(B, row)

    A, B = tensor((6, 8), dtype), tensor((8,), dtype)
    expected = B.clone()
    for row in A:
        expected = {"add": torch.add, "max": torch.maximum, "min": torch.minimum}[kind](expected, row)
    interpret(program, A, B)
    assert torch.equal(B, expected)


def test_any_and_all_of(interpret):
    @T.prim_func
    def program(A: T.Tensor((4, 6), "int32"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(4) as bx:
            row = T.alloc_shared((6,), "int32")
            T.copy(A[bx, 0:6], row)
            B[bx, 0] = T.if_then_else(T.any_of(row), 1, 0)
            B[bx, 1] = T.if_then_else(T.all_of(row), 1, 0)

    A = torch.tensor([[0] * 6, [1] * 6, [0, 0, 3, 0, 0, 0], [1, 1, 0, 1, 1, 1]], dtype=torch.int32)
    B = torch.zeros(4, 2, dtype=torch.int32)
    interpret(program, A, B)
    assert B.tolist() == [[0, 0], [1, 1], [1, 0], [1, 0]]


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn"])
def test_sub_byte_copies_keep_the_bytes(interpret, dtype):
    @T.prim_func
    def program(A: T.Tensor((128,), dtype), B: T.Tensor((128,), dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared((128,), dtype)
            T.copy(A, tile)
            T.copy(tile, B)

    A, B = torch.randint(-128, 128, (64,), dtype=torch.int8), torch.zeros(64, dtype=torch.int8)
    interpret(program, A, B)
    assert torch.equal(A, B)
