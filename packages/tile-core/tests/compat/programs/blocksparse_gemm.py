import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def blocksparse_matmul(M, N, K, block_M, block_N, block_K, num_stages, thread_num, enable_rasteration, dtype=T.float16, accum_dtype=T.float32):
    block_mask_shape = (M // block_M, N // block_N, K // block_K)

    @T.prim_func
    def block_sparse_matmul(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        BlockMask: T.Tensor(block_mask_shape, "bool"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            T.use_swizzle(panel_size=10, enable=enable_rasteration)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if BlockMask[by, bx, k]:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return block_sparse_matmul


def main(M=128, N=96, K=128):
    kernel = blocksparse_matmul(M, N, K, 32, 32, 32, 2, 128, True)
    a, b = torch.randn(M, K).half().cuda(), torch.randn(K, N).half().cuda()
    mask = torch.rand(M // 32, N // 32, K // 32).cuda() > 0.5
    c = kernel(a, b, mask)
    blocks = torch.kron(mask.float(), torch.ones(32, 32, 1).cuda()).repeat_interleave(32, 2)
    ref = torch.einsum("mk,kn,mnk->mn", a.float(), b.float(), blocks)
    torch.testing.assert_close(c.float(), ref, rtol=1e-2, atol=1e-1)
    print("All checks pass.")


if __name__ == "__main__":
    main()
