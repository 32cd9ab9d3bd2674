import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[1])
def swiglu(M, N, block_M=8, block_N=32, dtype="float16"):
    @T.prim_func
    def main(X: T.Tensor((M, 2 * N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                if bx * block_N + j < N:
                    gate = T.cast(X[by * block_M + i, bx * block_N + j], "float32")
                    up = T.cast(X[by * block_M + i, N + bx * block_N + j], "float32")
                    Y[by * block_M + i, bx * block_N + j] = gate * T.sigmoid(gate) * up

    return main


@tilelang.jit(out_idx=-1)
def cross_entropy(M, V, block_V):
    @T.prim_func
    def main(logits: T.Tensor((M, V), "float32"), labels: T.Tensor((M,), "int64"), loss: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=128) as row:
            chunk = T.alloc_fragment((block_V,), "float32")
            top = T.alloc_fragment((1,), "float32")
            old = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            part = T.alloc_fragment((1,), "float32")
            T.fill(top, -T.infinity("float32"))
            T.fill(total, 0)
            for v in T.serial(T.ceildiv(V, block_V)):
                for j in T.Parallel(block_V):
                    chunk[j] = T.if_then_else(v * block_V + j < V, logits[row, v * block_V + j], -T.infinity("float32"))
                T.copy(top, old)
                T.reduce_max(chunk, top, dim=0, clear=False)
                for j in T.Parallel(block_V):
                    chunk[j] = T.exp(chunk[j] - top[0])
                T.reduce_sum(chunk, part, dim=0)
                total[0] = total[0] * T.exp(old[0] - top[0]) + part[0]
            loss[row] = T.log(total[0]) + top[0] - logits[row, labels[row]]

    return main


def main():
    x = torch.randn(20, 2 * 50).cuda().half()
    gate, up = x.float().chunk(2, dim=1)
    torch.testing.assert_close(swiglu(20, 50)(x), (F.silu(gate) * up).half(), rtol=1e-2, atol=1e-2)
    logits = torch.randn(12, 333).cuda() * 4
    labels = torch.randint(0, 333, (12,)).cuda()
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(cross_entropy(12, 333, 64)(logits, labels), expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
