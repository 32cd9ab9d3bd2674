import argparse

import tilelang
import tilelang.language as T
import torch

tilelang.disable_cache()


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, trans_A=False, trans_B=True, dtype="float16", accum_dtype="float"):
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)
    A_block = (block_K, block_M) if trans_A else (block_M, block_K)
    B_block = (block_N, block_K) if trans_B else (block_K, block_N)

    @T.prim_func
    def gemm(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared(A_block, dtype)
            B_shared = T.alloc_shared(B_block, dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(panel_size=10)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                if trans_A:
                    T.copy(A[ko * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, ko * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, ko * block_K], B_shared)
                else:
                    T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--m", type=int, default=96)
    parser.add_argument("--n", type=int, default=80)
    parser.add_argument("--k", type=int, default=112)
    args = parser.parse_args()
    M, N, K = args.m, args.n, args.k
    for trans_A in (False, True):
        for trans_B in (False, True):
            kernel = matmul(M, N, K, 32, 32, 32, trans_A, trans_B)
            a = torch.randn(K, M) if trans_A else torch.randn(M, K)
            b = torch.randn(N, K) if trans_B else torch.randn(K, N)
            a, b = a.cuda().half(), b.cuda().half()
            ref = (a.T if trans_A else a).float() @ (b.T if trans_B else b).float()
            torch.testing.assert_close(kernel(a, b), ref.half(), rtol=1e-2, atol=1e-2)
    print(len(kernel.get_kernel_source()) > 0)
    print("All check passed.")


if __name__ == "__main__":
    main()
