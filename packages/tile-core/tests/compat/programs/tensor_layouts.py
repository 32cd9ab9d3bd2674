"""Sums that one kernel adds up and another reads, in a tensor that both give the same layout."""

import tilelang
import tilelang.language as T
import torch
from tilelang.tileop.base import GemmWarpPolicy


def layout(sums):
    """Elements of an 8 by 8 corner beside each other, as a product holds them."""
    return T.Layout(
        sums.shape, lambda b, i, j: [b, i // 8, j // 8, j % 2, 4 * (i % 8) + (j % 8) // 2]
    )


@tilelang.jit
def accumulate(batch, M, N, K, parts=2, block=32, threads=128):
    share = K // parts

    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), T.float16),
        B: T.Tensor((batch, K, N), T.float16),
        sums: T.Tensor((batch, M, N), T.float32),
    ):
        with T.Kernel(parts, M // block, batch, threads=threads) as (part, by, bz):
            A_shared = T.alloc_shared((block, share), T.float16)
            B_shared = T.alloc_shared((share, N), T.float16)
            total = T.alloc_fragment((block, N), T.float32)
            T.annotate_layout({sums: layout(sums)})
            T.copy(A[bz, by * block : (by + 1) * block, part * share : (part + 1) * share], A_shared)
            T.copy(B[bz, part * share : (part + 1) * share, :], B_shared)
            T.gemm(A_shared, B_shared, total, clear_accum=True, policy=GemmWarpPolicy.FullRow)
            T.atomic_add(sums[bz, by * block : (by + 1) * block, :], total, use_tma=False)

    return main


@tilelang.jit(out_idx=[1])
def narrow(batch, M, N, block=32, threads=128):
    @T.prim_func
    def main(sums: T.Tensor((batch, M, N), T.float32), out: T.Tensor((batch, M, N), T.float16)):
        with T.Kernel(M // block, batch, threads=threads) as (bx, by):
            T.annotate_layout({sums: layout(sums)})
            T.copy(sums[by, bx * block : (bx + 1) * block, :], out[by, bx * block : (bx + 1) * block, :])

    return main


if __name__ == "__main__":
    batch, M, N, K = 2, 64, 32, 64
    a = torch.randn(batch, M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(batch, K, N, device="cuda", dtype=torch.float16)
    sums = torch.zeros(batch, M, N, device="cuda")
    accumulate(batch, M, N, K)(a, b, sums)
    torch.testing.assert_close(narrow(batch, M, N)(sums), a @ b, rtol=1e-2, atol=1e-2)
    print("All checks pass.")
