import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def elementwise_add(M, N, block_M, block_N, in_dtype, out_dtype, threads):
    @T.prim_func
    def elem_add(A: T.Tensor((M, N), in_dtype), B: T.Tensor((M, N), in_dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), in_dtype)
            B_shared = T.alloc_shared((block_M, block_N), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), out_dtype)
            C_shared = T.alloc_shared((block_M, block_N), out_dtype)
            T.copy(A[by * block_M, bx * block_N], A_shared)
            T.copy(B[by * block_M, bx * block_N], B_shared)
            for local_y, local_x in T.Parallel(block_M, block_N):
                C_local[local_y, local_x] = A_shared[local_y, local_x] + B_shared[local_y, local_x]
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return elem_add


def main(M=130, N=200):
    for dtype in ("float32", torch.float16, T.bfloat16):
        kernel = elementwise_add(M, N, block_M=32, block_N=64, in_dtype=dtype, out_dtype="float32", threads=128)
        a = torch.randn(M, N, device="cuda").to(T.dtype(dtype).as_torch() if isinstance(dtype, str) else torch.float16)
        if dtype is T.bfloat16:
            a = a.bfloat16()
        b = torch.randn_like(a)
        torch.testing.assert_close(kernel(a, b), a.float() + b.float(), rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    main()
