import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def gemm(A, B, block_M: int = 32, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilelang.jit
def min_max(X, block=64):
    n = T.const("n")
    X: T.Tensor((n,), "float32")
    low = T.empty((n,), "float32")
    high = T.empty((n,), "float32")
    with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
        for i in T.Parallel(block):
            low[bx * block + i] = T.min(X[bx * block + i], 0)
            high[bx * block + i] = T.max(X[bx * block + i], 0)
    return low, high


@tilelang.jit
def scale_in_place(X, factor: T.float32):
    n = T.dynamic("n")
    X: T.Tensor((n,), T.float32)
    with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
        for i in T.Parallel(128):
            X[bx * 128 + i] *= factor


def main():
    for M, N, K in ((64, 32, 96), (50, 70, 33)):
        a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
        torch.testing.assert_close(gemm(a, b), (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(gemm(a, b, block_K=16), (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-2)
    x = torch.randn(1000, device="cuda")
    outs = min_max(x)
    assert isinstance(outs, list)
    assert torch.equal(outs[0], x.clamp(max=0)) and torch.equal(outs[1], x.clamp(min=0))
    expected = x * 3
    assert scale_in_place(x, 3.0) == []
    torch.testing.assert_close(x, expected)
    assert scale_in_place.compile(torch.empty(7, device="cuda"), 2.0) is scale_in_place.compile(x, 1.0)


if __name__ == "__main__":
    main()
