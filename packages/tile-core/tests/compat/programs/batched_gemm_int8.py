import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def batched(B, M, N, K, block_M, block_N, block_K):
    @T.prim_func
    def main(X: T.Tensor((B, M, K), "int8"), W: T.Tensor((B, N, K), "int8"), Y: T.Tensor((B, M, N), "int32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), B, threads=128) as (bx, by, bz):
            X_shared = T.alloc_shared((block_M, block_K), "int8")
            W_shared = T.alloc_shared((block_N, block_K), "int8")
            acc = T.alloc_fragment((block_M, block_N), "int32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[bz, by * block_M : (by + 1) * block_M, k * block_K : (k + 1) * block_K], X_shared)
                T.copy(W[bz, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], W_shared)
                T.gemm(X_shared, W_shared, acc, transpose_B=True)
            T.copy(acc, Y[bz, by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N])

    return main


def main(B=3, M=40, N=24, K=64):
    x = torch.randint(-128, 128, (B, M, K), dtype=torch.int8, device="cuda")
    w = torch.randint(-128, 128, (B, N, K), dtype=torch.int8, device="cuda")
    expected = torch.bmm(x.cpu().int(), w.cpu().int().transpose(1, 2))
    assert torch.equal(batched(B, M, N, K, 16, 16, 32)(x, w).cpu(), expected)


if __name__ == "__main__":
    main()
