import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def layer_norm(M, N, blk_m, eps=1e-5, dtype="float16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Bias: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
            x_shared = T.alloc_shared((blk_m, N), dtype)
            x = T.alloc_fragment((blk_m, N), "float")
            square = T.alloc_fragment((blk_m, N), "float")
            mean = T.alloc_fragment((blk_m,), "float")
            var = T.alloc_fragment((blk_m,), "float")
            T.copy(X[bx * blk_m : (bx + 1) * blk_m, :], x_shared)
            T.copy(x_shared, x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(blk_m):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(blk_m, N):
                square[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(square, var, dim=1)
            for i in T.Parallel(blk_m):
                var[i] = T.rsqrt(var[i] / N + eps)
            for i, j in T.Parallel(blk_m, N):
                x[i, j] = (x[i, j] - mean[i]) * var[i] * W[j] + Bias[j]
            T.copy(x, Y[bx * blk_m : (bx + 1) * blk_m, :])

    return main


def main(M=37, N=256):
    kernel = layer_norm(M, N, 4)
    x, w, b = (torch.randn(*s).half().cuda() for s in ((M, N), (N,), (N,)))
    ref = torch.nn.functional.layer_norm(x.float(), (N,), w.float(), b.float()).half()
    torch.testing.assert_close(kernel(x, w, b), ref, rtol=1e-2, atol=1e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
