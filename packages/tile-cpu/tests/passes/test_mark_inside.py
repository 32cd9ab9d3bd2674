"""Products whose operands reach beyond their tensors or tiles: zeros are read there and nothing is written."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_core.ops.base import op_name
from tile_core.passes.base import PassContext
from tile_cpu.ops.prepared import INSIDE
from tile_cpu.passes.mark_inside import MarkInside

DTYPES = ["float32", "bfloat16", "float16", "int8"]
ROWS = 48


def totals(dtype):
    return "int32" if dtype == "int8" else "float32"


def numbers(*shape, dtype):
    return torch.randint(-4, 5, shape).to(getattr(torch, dtype))


def in_tensors(M, N, K, dtype, bm=32, bn=48):
    """C = A B, multiplied where the tensors are."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), totals(dtype))):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            rows, columns = by * bm, bx * bn
            T.gemm(
                A[rows : rows + bm, :],
                B[:, columns : columns + bn],
                C[rows : rows + bm, columns : columns + bn],
                clear_accum=True,
            )

    return kernel


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(70, 50, 32), (33, 97, 64), (64, 96, 64)], ids=str)
def test_edges_of_tensors(size, dtype):
    m, n, k = size
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    memory = torch.full((m * n + 32 * n,), 77, dtype=getattr(torch, totals(dtype)))
    tl.compile(in_tensors(m, n, k, dtype), target="cpu")(a, b, memory[: m * n].view(m, n))
    assert torch.equal(memory[: m * n].view(m, n).double(), a.double() @ b.double())
    assert torch.equal(memory[m * n :], torch.full_like(memory[m * n :], 77))


def in_tiles(dtype, transposed):
    """C[at:] = A[at:] B[at:] of tiles of ROWS rows, at a place that the caller gives; what is around C stays."""

    @T.prim_func
    def kernel(
        A: T.Tensor((ROWS, 64), dtype),
        B: T.Tensor((ROWS, ROWS), dtype),
        P: T.Tensor((1,), "int32"),
        C: T.Tensor((ROWS, 32), totals(dtype)),
    ):
        with T.Kernel(1):
            a = T.alloc_shared((ROWS, 64), dtype)
            b = T.alloc_shared((ROWS, ROWS), dtype)
            c = T.alloc_fragment((ROWS, 32), totals(dtype))
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            at = P[0]
            if transposed:
                T.gemm(a[at : at + 32, 0:32], b[at : at + 32, 0:32], c[at : at + 32, :], transpose_B=True)
            else:
                T.gemm(a[at : at + 32, 0:32], b[at : at + 32, 0:32], c[at : at + 32, :])
            T.copy(c, C)

    return kernel


def cut(tile, at):
    """32 rows and columns from row `at` on, zeros beyond the tile."""
    padded = torch.zeros(3 * ROWS, 32, dtype=torch.float64)
    padded[ROWS : 2 * ROWS] = tile[:, :32].double()
    return padded[ROWS + at : ROWS + at + 32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_starts_that_only_the_call_knows(dtype, transposed):
    kernel = tl.compile(in_tiles(dtype, transposed), target="cpu")
    for at in (0, 16, 40, -8, -40):
        a, b = numbers(ROWS, 64, dtype=dtype), numbers(ROWS, ROWS, dtype=dtype)
        c = numbers(ROWS, 32, dtype=totals(dtype))
        right = cut(b, at)
        expected = c.double()
        inside = range(max(at, 0), min(at + 32, ROWS))
        expected[inside] += (cut(a, at) @ (right.T if transposed else right))[inside.start - at : inside.stop - at]
        kernel(a, b, torch.tensor([at], dtype=torch.int32), c)
        assert torch.equal(c.double(), expected)
    far = numbers(ROWS, 32, dtype=totals(dtype))
    for at in (2**30, -(2**30)):
        c = far.clone()
        kernel(a, b, torch.tensor([at], dtype=torch.int32), c)
        assert torch.equal(c, far)


def test_what_is_proved():
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), P: T.Tensor((1,), "int32"), C: T.Tensor((64, 16), "float32")):
        with T.Kernel(4) as bx:
            a = T.alloc_shared((3, 16, 16), "float32")
            b = T.alloc_shared((32, 16), "float32")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(a)
            T.clear(b)
            T.clear(c)
            for k in T.serial(7):
                T.gemm(a[k % 3, :, :], b[P[0] : P[0] + 16, :], c)
                row, step, half = bx * 16, k * 16, 16 * (k % 2)
                if k < 3:
                    T.gemm(A[row : row + 16, step : step + 16], b[half : half + 16, :], c)
                T.gemm(A[row : row + 16, step : step + 16], b[step : step + 16, :], C[row : row + 16, :])

    marked = MarkInside()(kernel, PassContext(None, None, None))
    products = [stmt.value for stmt in visit.statements(marked.body) if op_name(stmt) == "tile.gemm"]
    assert [str(product.attrs[INSIDE]) for product in products] == ["ac", "abc", "c"]
