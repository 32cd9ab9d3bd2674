"""Operands that several blocks multiply are packed once, and only where no block can change them."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T


def gemm(M, N, K, dtype, out="float32", bm=32, bn=64, bk=32, loops=None, written=False, transpose_b=False):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if transpose_b else (K, N), dtype), C: T.Tensor((M, N), out)
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if transpose_b else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "int32" if out == "int32" else "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk) if loops is None else loops(bx, by)):
                T.copy(A[by * bm, k * bk], a)
                if transpose_b:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_B=transpose_b)
            T.copy(c, C[by * bm, bx * bn])
            if written:
                B[by, bx] = B[by, bx]

    return kernel


def shared(kernel):
    return kernel.report().get("shared_operands", [])


def run(kernel, M, N, K, dtype, transpose_b=False, whole=False):
    kind = getattr(torch, dtype)
    a, b = torch.randint(-4, 5, (M, K)).to(kind), torch.randint(-4, 5, (K, N)).to(kind)
    out = torch.full((M, N), 77).to(torch.int32 if whole else torch.float32)
    kernel(a, b.T.contiguous() if transpose_b else b, out)
    return a.double(), b.double(), out.double()


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(128, 192, 128), (37, 200, 101), (100, 65, 7)], ids=str)
def test_both_operands_are_right_at_every_edge(shape, dtype, transpose_b):
    out = "int32" if dtype == "int8" else "float32"
    kernel = tl.compile(gemm(*shape, dtype, out, transpose_b=transpose_b), target="cpu")
    assert shared(kernel)
    a, b, c = run(kernel, *shape, dtype, transpose_b, dtype == "int8")
    assert torch.equal(c, a @ b)


def test_a_narrow_grid_shares_nothing():
    kernel = tl.compile(gemm(32, 64, 64, "float32"), target="cpu")
    assert shared(kernel) == []
    a, b, c = run(kernel, 32, 64, 64, "float32")
    assert torch.equal(c, a @ b)


def test_a_tensor_that_a_block_writes_is_not_shared():
    kernel = tl.compile(gemm(64, 64, 64, "float32", written=True), target="cpu")
    assert shared(kernel) == []
    a, b, c = run(kernel, 64, 64, 64, "float32")
    assert torch.equal(c, a @ b)


def test_loops_whose_end_differs_between_blocks():
    """Blocks of row `by` multiply `by + 1` steps of K; all steps that some block needs are packed."""
    kernel = tl.compile(gemm(128, 128, 128, "float32", loops=lambda bx, by: by + 1), target="cpu")
    assert shared(kernel)
    a, b, c = run(kernel, 128, 128, 128, "float32")
    lower = torch.arange(128)[:, None] // 32 >= torch.arange(128)[None, :] // 32
    assert torch.equal(c, (a * lower) @ b)


def test_a_loop_that_ends_before_the_tensor():
    kernel = tl.compile(gemm(64, 128, 200, "bfloat16", loops=lambda bx, by: 3), target="cpu")
    a, b, c = run(kernel, 64, 128, 200, "bfloat16")
    assert torch.equal(c, a[:, :96] @ b[:96])


def test_padding_multiplies_as_zeros():
    """What lies beyond the tensors is zero: times infinity it is NaN, which no element of the result may see."""
    M, N, K = 40, 70, 33
    kernel = tl.compile(gemm(M, N, K, "float32"), target="cpu")
    a, b = torch.randn(M, K), torch.randn(K, N)
    a[-1, -1], b[-1, -1], b[0, 5] = torch.inf, torch.nan, -torch.inf
    out = torch.full((M, N), 77.0)
    kernel(a, b, out)
    torch.testing.assert_close(out, a @ b, equal_nan=True, rtol=1e-4, atol=1e-4)
