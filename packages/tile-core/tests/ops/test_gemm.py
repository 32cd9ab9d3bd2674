"""`tile.gemm` against torch: transposes, dtypes, slices, clearing, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import GemmDTypeError, GemmShapeError, GemmSymbolicError


def multiplying(
    m: int,
    n: int,
    k: int,
    *,
    ta: bool = False,
    tb: bool = False,
    dtype: str = "float32",
    acc: str = "float32",
    clear: Any = True,
) -> Any:
    a_shape, b_shape = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), acc)):
        with T.Kernel(1):
            left = T.alloc_shared(a_shape, dtype)
            right = T.alloc_shared(b_shape, dtype)
            total = T.alloc_fragment((m, n), acc)
            T.copy(A, left)
            T.copy(B, right)
            T.copy(C, total)
            T.gemm(left, right, total, transpose_A=ta, transpose_B=tb, clear_accum=clear)
            T.copy(total, C)

    return kernel


def operands(m: int, n: int, k: int, ta: bool, tb: bool, dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(m * n + k)
    a, b = (torch.randint(-4, 5, shape, generator=generator).to(kind) for shape in ((m, k), (k, n)))
    product = a.double() @ b.double()
    return (a.T.contiguous() if ta else a), (b.T.contiguous() if tb else b), product


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (1, 1, 1), (7, 13, 5), (32, 8, 24)])
def test_transposes(run: Any, m: int, n: int, k: int, ta: bool, tb: bool) -> None:
    a, b, product = operands(m, n, k, ta, tb, "float32")
    c = torch.full((m, n), float("nan"))
    run(multiplying(m, n, k, ta=ta, tb=tb), a, b, c)
    assert torch.equal(c.double(), product)


@pytest.mark.parametrize(
    ("dtype", "acc"),
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float16", "float16"),
        ("float8_e4m3fn", "float32"),
        ("int8", "int32"),
        ("uint8", "int32"),
        ("int32", "int64"),
        ("float64", "float64"),
    ],
)
def test_dtypes(run: Any, dtype: str, acc: str) -> None:
    if dtype == "uint8":
        a, b = (torch.randint(0, 256, shape, dtype=torch.uint8) for shape in ((8, 12), (12, 4)))
        product = a.double() @ b.double()
    else:
        a, b, product = operands(8, 4, 12, False, False, dtype)
    c = torch.ones(8, 4).to(getattr(torch, acc))
    run(multiplying(8, 4, 12, dtype=dtype, acc=acc, clear=False), a, b, c)
    assert torch.equal(c.double(), product + 1)


def test_empty_k_clears(run: Any) -> None:
    a, b, c = torch.ones(0, 4), torch.ones(0, 4), torch.full((4, 4), 7.0)
    run(multiplying(4, 4, 0, ta=True), a, b, c)
    assert (c == 0).all()


def test_clearing_on_a_device_condition(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8, 4), "float32"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            total = T.alloc_fragment((4, 4), "float32")
            T.fill(total, 99)
            for k in T.serial(2):
                T.gemm(A[0:4, k * 4 : k * 4 + 4], B[k * 4 : k * 4 + 4, 0:4], total, clear_accum=k == 0)
            T.copy(total, C)

    a, b, c = torch.randn(4, 8), torch.randn(8, 4), torch.zeros(4, 4)
    run(kernel, a, b, c)
    torch.testing.assert_close(c, a @ b)


def test_a_slice_of_a_tile(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 48), "float32"), B: T.Tensor((32, 8), "float32"), C: T.Tensor((64, 8), "float32")):
        with T.Kernel(1):
            left = T.alloc_shared((64, 48), "float32")
            right = T.alloc_shared((32, 8), "float32")
            total = T.alloc_fragment((64, 8), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.clear(total)
            T.gemm(left[:, :32], right, total)
            T.copy(total, C)

    a, b, c = torch.randn(64, 48), torch.randn(32, 8), torch.zeros(64, 8)
    run(kernel, a, b, c)
    torch.testing.assert_close(c, a[:, :32] @ b)


def refused(a: tuple[Any, ...], b: tuple[Any, ...], c: tuple[Any, ...], dtypes: tuple[str, str, str]) -> None:
    @T.prim_func
    def kernel(n: T.int32):
        with T.Kernel(1):
            left = T.alloc_shared(tuple(n if extent is None else extent for extent in a), dtypes[0])
            right = T.alloc_shared(b, dtypes[1])
            total = T.alloc_fragment(c, dtypes[2])
            T.gemm(left, right, total)


F32 = ("float32", "float32", "float32")


@pytest.mark.parametrize(
    ("shapes", "dtypes", "error", "words"),
    [
        (((4, 5), (6, 3), (4, 3)), F32, GemmShapeError, ["K is 5", "left", "right", "6"]),
        (((4, 5), (5, 3), (3, 3)), F32, GemmShapeError, ["M is 4", "left", "total", "3"]),
        (((4, 5), (5, 3), (4, 2)), F32, GemmShapeError, ["N is 3", "right", "total", "2"]),
        (((2, 4, 5), (5, 3), (4, 3)), F32, GemmShapeError, ["left", "(2, 4, 5)"]),
        (((None, 5), (5, 3), (4, 3)), F32, GemmSymbolicError, ["left", "n"]),
        (((4, 5), (5, 3), (4, 3)), ("float16", "bfloat16", "float32"), GemmDTypeError, ["float16", "bfloat16"]),
        (((4, 5), (5, 3), (4, 3)), ("float32", "float32", "int32"), GemmDTypeError, ["total", "int32"]),
        (((4, 5), (5, 3), (4, 3)), ("int8", "int8", "int8"), GemmDTypeError, ["total", "int8"]),
    ],
)
def test_refusals(shapes: Any, dtypes: tuple[str, str, str], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        refused(*shapes, dtypes)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.span is not None
