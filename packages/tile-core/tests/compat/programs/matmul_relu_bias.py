import tilelang
import tilelang.language as T
import torch


def linear_relu(M, N, K, block_M, block_N, block_K, dtype=T.float32, accum_dtype=T.float32):
    @T.prim_func
    def main(
        X: T.Tensor([M, K], dtype),
        W: T.Tensor([N, K], dtype),
        bias: T.Tensor([N], dtype),
        Y: T.Tensor([M, N], dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            X_shared = T.alloc_shared([block_M, block_K], dtype)
            W_shared = T.alloc_shared([block_N, block_K], dtype)
            bias_local = T.alloc_fragment([block_N], dtype)
            acc = T.alloc_fragment([block_M, block_N], accum_dtype)
            T.fill(acc, 0)
            T.copy(bias[bx * block_N], bias_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(X[by * block_M, k * block_K], X_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(X_shared, W_shared, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.max(acc[i, j] + bias_local[j], 0)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return main


def main():
    M, N, K = 100, 72, 56
    kernel = tilelang.compile(linear_relu(M, N, K, 32, 32, 16), out_idx=-1, target="auto")
    x, w, bias = torch.randn(M, K).cuda(), torch.randn(N, K).cuda(), torch.randn(N).cuda()
    torch.testing.assert_close(kernel(x, w, bias), torch.relu(x @ w.T + bias), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
