import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=-1)
def cumsum_smem(M, N, block_M, block_N, dim=0, reverse=False, dtype="float32"):
    @T.prim_func
    def cumsum(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], A_shared)
            T.cumsum(src=A_shared, dim=dim, reverse=reverse)
            T.copy(A_shared, B[by * block_M, bx * block_N])

    return cumsum


@tilelang.jit(out_idx=-1)
def cumsum_fragment(M, N, dim, reverse, dtype="float32"):
    @T.prim_func
    def cumsum(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, N), dtype)
            A_fragment = T.alloc_fragment((M, N), dtype)
            T.copy(A, A_shared)
            T.copy(A_shared, A_fragment)
            T.cumsum(src=A_fragment, dim=dim, reverse=reverse)
            T.copy(A_fragment, B)

    return cumsum


def scan(x, dim, reverse):
    return x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)


def main(M=32, N=64):
    a = torch.randint(0, 5, (M, N), device="cuda").float()
    for dim in (0, 1):
        for reverse in (False, True):
            got = cumsum_smem(M, N, M // 2, N // 2, dim, reverse)(a)
            for i in range(2):
                for j in range(2):
                    block = (slice(i * 16, i * 16 + 16), slice(j * 32, j * 32 + 32))
                    assert torch.equal(got[block], scan(a[block], dim, reverse))
            assert torch.equal(cumsum_fragment(M, N, dim, reverse)(a), scan(a, dim, reverse))


if __name__ == "__main__":
    main()
