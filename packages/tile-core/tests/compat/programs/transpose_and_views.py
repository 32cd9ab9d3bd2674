import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def transpose(M, N, block, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            turned = T.alloc_shared((block, block), dtype)
            T.copy(A[by * block, bx * block], tile)
            T.transpose(tile, turned)
            T.copy(turned, B[bx * block, by * block])

    return main


@tilelang.jit(out_idx=[-1])
def group_absmax(M, N, group, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), S: T.Tensor((M * N // group,), dtype)):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_fragment((M, N), dtype)
            grouped = T.reshape(tile, [M * N // group, group])
            peaks = T.alloc_fragment((M * N // group,), dtype)
            T.copy(A, tile)
            T.reduce_absmax(grouped, peaks, dim=1)
            T.copy(peaks, S)

    return main


@tilelang.jit(out_idx=[-1])
def bits_of(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "uint32")):
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = T.reinterpret(A[bx * 64 + i], "uint32")

    return main


def main():
    a = torch.randn(50, 70, device="cuda")
    assert torch.equal(transpose(50, 70, 16)(a), a.T)
    b = torch.randn(8, 64, device="cuda")
    assert torch.equal(group_absmax(8, 64, 16)(b), b.view(-1, 16).abs().amax(1))
    c = torch.randn(100, device="cuda")
    assert torch.equal(bits_of(100)(c).view(torch.int32), c.view(torch.int32))


if __name__ == "__main__":
    main()
