import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul_int4(M, N, K, block_M, block_N, block_K, in_dtype="float16", accum_dtype="float32"):
    num_elems_per_byte = 2
    storage_dtype = "uint8"

    @T.macro
    def unpack(packed, position):
        return ((packed >> (position * 4)) & 0xF).astype("int32") - 8

    @T.prim_func
    def main(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K // num_elems_per_byte), storage_dtype),
        C: T.Tensor((M, N), in_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K // num_elems_per_byte), storage_dtype)
            B_dequantized = T.alloc_shared((block_N, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=1):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // num_elems_per_byte], B_shared)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequantized[i, j] = T.cast(
                        ((B_shared[i, j // 2] >> ((j % 2) * 4)) & 0xF).astype("int32") - 8, in_dtype
                    )
                T.gemm(A_shared, B_dequantized, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def ref_program(A, qB):
    low, high = (qB & 0xF).int() - 8, (qB >> 4).int() - 8
    B = torch.stack([low, high], dim=-1).reshape(qB.shape[0], -1)
    return (A.float() @ B.float().T).half()


def main():
    M, N, K = 48, 64, 96
    kernel = matmul_int4(M, N, K, 16, 32, 32)
    A = torch.randn(M, K, device="cuda", dtype=torch.float16)
    qB = torch.randint(0, 256, (N, K // 2), device="cuda", dtype=torch.uint8)
    torch.testing.assert_close(kernel(A, qB), ref_program(A, qB), rtol=1e-2, atol=1e-1)


if __name__ == "__main__":
    main()
