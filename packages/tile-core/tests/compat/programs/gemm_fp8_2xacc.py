import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def gemm_fp8_2xacc(M, N, K, block_M, block_N, block_K, dtype, accum_dtype=T.float32):
    update_interval = 2

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_shared = T.alloc_shared((block_M, block_N), accum_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_local_accum = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            T.clear(C_local_accum)
            K_iters = T.ceildiv(K, block_K)
            for k in T.Pipelined(K_iters, num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                if (k + 1) % update_interval == 0:
                    for i, j in T.Parallel(block_M, block_N):
                        C_local_accum[i, j] += C_local[i, j]
                    T.clear(C_local)
            if K_iters % update_interval != 0:
                for i, j in T.Parallel(block_M, block_N):
                    C_local_accum[i, j] += C_local[i, j]
            T.copy(C_local_accum, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return main


def main(M=64, N=64, K=192):
    for name in ("float8_e4m3fn", "float8_e5m2"):
        a = (torch.randn(M, K)).cuda().to(getattr(torch, name))
        b = (torch.randn(N, K)).cuda().to(getattr(torch, name))
        c = gemm_fp8_2xacc(M, N, K, 32, 32, 64, name)(a, b)
        torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
    print("All checks pass.")


if __name__ == "__main__":
    main()
