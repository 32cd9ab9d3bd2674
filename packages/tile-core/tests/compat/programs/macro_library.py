import tilelang
import tilelang.language as T
import torch


@T.macro
def load_tile(src, dst, row, col):
    T.copy(src[row, col], dst)


@T.macro
def gelu(x, rows, cols):
    for i, j in T.Parallel(rows, cols):
        x[i, j] = 0.5 * x[i, j] * (1 + T.tanh(0.79788456 * (x[i, j] + 0.044715 * x[i, j] * x[i, j] * x[i, j])))


@T.macro
def bump(counter: T.Ref, step=1):
    counter += step


@T.macro
def clipped(x, low=-1.0, high=1.0):
    return T.max(T.min(x, high), low)


def activations(kind):
    @T.macro
    def apply(x, rows, cols):
        if kind == "gelu":
            gelu(x, rows, cols)
        else:
            for i, j in T.Parallel(rows, cols):
                x[i, j] = clipped(x[i, j], high=0.5)

    return apply


@tilelang.jit(out_idx=[-2, -1])
def fused(M, N, block_M, block_N, kind):
    activation = activations(kind)

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32"), tiles: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_fragment((block_M, block_N), "float32")
            seen = T.alloc_var("int32", init=0)
            for by in T.serial(T.ceildiv(M, block_M)):
                for bx in T.serial(T.ceildiv(N, block_N)):
                    load_tile(X, tile, by * block_M, bx * block_N)
                    activation(tile, block_M, block_N)
                    T.copy(tile, Y[by * block_M, bx * block_N])
                    bump(seen)
            tiles[0] = seen

    return main


def main(M=20, N=40):
    x = torch.randn(M, N, device="cuda")
    y, tiles = fused(M, N, 8, 16, "gelu")(x)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"), rtol=1e-4, atol=1e-5)
    assert tiles.item() == 9
    y, _ = fused(M, N, 8, 16, "clip")(x)
    assert torch.equal(y, x.clamp(-1, 0.5))


if __name__ == "__main__":
    main()
