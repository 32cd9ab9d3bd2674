"""Products of any size by one dynamic kernel a dtype: NaN in one row, tensors that begin at any element."""

from __future__ import annotations

import random

import pytest
import torch

import tile_core as tl
import tile_core.language as T

EDGES = (1, 2, 7, 31, 32, 33, 63, 64, 65, 95, 96, 97, 130, 191, 257)


def gemm(dtype, total, bm=64, bn=96, bk=64):
    M, N, K = (T.dynamic(name) for name in "MNK")

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), total)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), total)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


@pytest.mark.parametrize(
    ("dtype", "total"), [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")]
)
def test_thirty_random_sizes(dtype, total):
    kernel = tl.compile(gemm(dtype, total), target="cpu")
    choose = random.Random(dtype)
    torch.manual_seed(6)
    kind = getattr(torch, dtype)
    for _ in range(30):
        m, n, k = (choose.choice(EDGES) for _ in range(3))
        # One element in front, so that no tensor begins at an aligned address.
        a, b = (torch.randint(-100, 100, (size + 1,)).to(kind)[1:] for size in (m * k, k * n))
        a, b = a.view(m, k), b.view(k, n)
        if kind.is_floating_point:
            a[choose.randrange(m), choose.randrange(k)] = torch.nan
            b[choose.randrange(k), choose.randrange(n)] = torch.inf
        guarded = torch.full((m * n + 2,), 77).to(getattr(torch, total))
        out = guarded[1:-1].view(m, n)
        kernel(a, b, out)
        # Whole numbers below 2^24: every order of the sums is exact.
        expected = (a.double() @ b.double()).to(out.dtype)
        assert torch.equal(out.isnan(), expected.isnan()), (m, n, k)
        assert torch.equal(out.nan_to_num(), expected.nan_to_num()), (m, n, k)
        assert guarded[0] == guarded[-1] == 77
