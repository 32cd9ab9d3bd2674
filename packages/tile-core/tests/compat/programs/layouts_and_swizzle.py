import tilelang
import tilelang.language as T
import torch
from tilelang.layout import make_swizzled_layout


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            T.annotate_layout(
                {
                    A_shared: make_swizzled_layout(A_shared),
                    B_shared: tilelang.layout.make_swizzled_layout(B_shared),
                    C_shared: tilelang.layout.make_swizzled_layout(C_shared),
                }
            )
            T.use_swizzle(panel_size=4, order="column", enable=True)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared, coalesced_width=8)
                for i, j in T.Parallel(block_K, block_N):
                    B_shared[i, j] = B[k * block_K + i, bx * block_N + j]
                T.gemm(A_shared, B_shared, C_local, clear_accum=False)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return main


def main(M=64, N=96, K=64):
    a, b = torch.randn(M, K).cuda().half(), torch.randn(K, N).cuda().half()
    torch.testing.assert_close(matmul(M, N, K, 32, 32, 32)(a, b), (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    main()
