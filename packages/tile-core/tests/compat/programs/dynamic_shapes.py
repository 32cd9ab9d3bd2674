import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul_dynamic(block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    M = T.dynamic("m")
    N, K = T.dynamic("n, k")

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def masked_copy(block_N=64, dtype="float32"):
    N = T.symbolic("n")
    row_stride = T.symbolic("row_stride")

    @T.prim_func
    def main(A: T.StridedTensor((4, N), (row_stride, 1), dtype), B: T.Tensor((4, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), 4, threads=64) as (bx, by):
            for i in T.Parallel(block_N):
                B[by, bx * block_N + i] = A[by, bx * block_N + i]

    return main


def main():
    kernel = matmul_dynamic(32, 32, 32)
    for M, N, K in ((64, 64, 64), (50, 33, 70), (1, 7, 129)):
        a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
        torch.testing.assert_close(kernel(a, b), (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-2)
    profiler = kernel.get_profiler()
    latency = profiler.do_bench(warmup=1, rep=3, dynamic_symbolic_constraints={"m": 64, "n": 64, "k": 64})
    assert latency > 0
    wide = torch.randn(4, 1003, device="cuda")
    out = torch.zeros(4, 1000, device="cuda")
    masked_copy()(wide[:, :1000], out)
    assert torch.equal(out, wide[:, :1000])


if __name__ == "__main__":
    main()
