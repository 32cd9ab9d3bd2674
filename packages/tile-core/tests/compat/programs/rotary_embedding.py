import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def rotary(X, cos, sin, block=16):
    batch, seq, heads, dim = T.const("batch seq heads dim")
    half = T.const("half")
    X: T.Tensor((batch, seq, heads, dim), "float32")
    cos: T.Tensor((seq, half), "float32")
    sin: T.Tensor((seq, half), "float32")
    Y = T.empty((batch, seq, heads, dim), "float32")
    with T.Kernel(T.ceildiv(seq, block), heads, batch, threads=128) as (bx, by, bz):
        for i, j in T.Parallel(block, dim // 2):
            row = bx * block + i
            first = X[bz, row, by, j]
            second = X[bz, row, by, j + dim // 2]
            Y[bz, row, by, j] = first * cos[row, j] - second * sin[row, j]
            Y[bz, row, by, j + dim // 2] = second * cos[row, j] + first * sin[row, j]
    return Y


def main(batch=2, seq=50, heads=3, dim=16):
    x = torch.randn(batch, seq, heads, dim, device="cuda")
    angles = torch.arange(seq)[:, None] * torch.rand(dim // 2)
    cos, sin = angles.cos().cuda(), angles.sin().cuda()
    first, second = x.chunk(2, dim=-1)
    c, s = cos[None, :, None], sin[None, :, None]
    expected = torch.cat([first * c - second * s, second * c + first * s], dim=-1)
    torch.testing.assert_close(rotary(x, cos, sin), expected)


if __name__ == "__main__":
    main()
