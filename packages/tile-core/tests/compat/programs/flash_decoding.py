import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[4])
def flash_decode(heads, seqlen_kv, dim, block_N, num_split):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype = "float32", "float32"
    split = T.ceildiv(seqlen_kv, num_split)

    @T.prim_func
    def main(
        Q: T.Tensor((heads, dim), dtype),
        K: T.Tensor((seqlen_kv, heads, dim), dtype),
        V: T.Tensor((seqlen_kv, heads, dim), dtype),
        partial: T.Tensor((heads, num_split, dim + 1), accum_dtype),
        Output: T.Tensor((heads, dim), dtype),
    ):
        with T.Kernel(heads, num_split, threads=128) as (h, s):
            q = T.alloc_fragment((dim,), accum_dtype)
            keys = T.alloc_fragment((block_N, dim), accum_dtype)
            scores = T.alloc_fragment((block_N,), accum_dtype)
            top = T.alloc_fragment((1,), accum_dtype)
            top_prev = T.alloc_fragment((1,), accum_dtype)
            total = T.alloc_fragment((1,), accum_dtype)
            block_sum = T.alloc_fragment((1,), accum_dtype)
            acc = T.alloc_fragment((dim,), accum_dtype)
            block_acc = T.alloc_fragment((dim,), accum_dtype)
            T.copy(Q[h, :], q)
            T.fill(top, -T.infinity(accum_dtype))
            T.fill(total, 0)
            T.fill(acc, 0)
            for k in T.serial(T.ceildiv(split, block_N)):
                for i, j in T.Parallel(block_N, dim):
                    keys[i, j] = K[s * split + k * block_N + i, h, j] * q[j]
                T.reduce_sum(keys, scores, dim=1)
                for i in T.Parallel(block_N):
                    inside = (k * block_N + i < split) and (s * split + k * block_N + i < seqlen_kv)
                    scores[i] = T.if_then_else(inside, scores[i] * scale, -T.infinity(accum_dtype))
                T.copy(top, top_prev)
                T.reduce_max(scores, top, dim=0, clear=False)
                for i in T.Parallel(block_N):
                    scores[i] = T.exp2(scores[i] - top[0])
                T.reduce_sum(scores, block_sum, dim=0)
                total[0] = total[0] * T.exp2(top_prev[0] - top[0]) + block_sum[0]
                for i, j in T.Parallel(block_N, dim):
                    keys[i, j] = scores[i] * V[s * split + k * block_N + i, h, j]
                T.reduce_sum(keys, block_acc, dim=0)
                for j in T.Parallel(dim):
                    acc[j] = acc[j] * T.exp2(top_prev[0] - top[0]) + block_acc[j]
            for j in T.Parallel(dim):
                partial[h, s, j] = acc[j] / total[0]
            partial[h, s, dim] = T.log2(total[0]) + top[0]

        with T.Kernel(heads, threads=128) as h:
            lse = T.alloc_fragment((num_split,), accum_dtype)
            lse_max = T.alloc_fragment((1,), accum_dtype)
            weight_sum = T.alloc_fragment((1,), accum_dtype)
            out = T.alloc_fragment((dim,), accum_dtype)
            for s in T.Parallel(num_split):
                lse[s] = partial[h, s, dim]
            T.reduce_max(lse, lse_max, dim=0)
            for s in T.Parallel(num_split):
                lse[s] = T.exp2(lse[s] - lse_max[0])
            T.reduce_sum(lse, weight_sum, dim=0)
            T.clear(out)
            for s in T.serial(num_split):
                for j in T.Parallel(dim):
                    out[j] += partial[h, s, j] * T.exp2(partial[h, s, dim] - lse_max[0]) / weight_sum[0]
            T.copy(out, Output[h, :])

    return main


def main(heads=3, seqlen_kv=100, dim=32, num_split=4):
    q = torch.randn(heads, dim, device="cuda")
    k = torch.randn(seqlen_kv, heads, dim, device="cuda")
    v = torch.randn(seqlen_kv, heads, dim, device="cuda")
    partial = torch.empty(heads, num_split, dim + 1, device="cuda")
    out = flash_decode(heads, seqlen_kv, dim, 16, num_split)(q, k, v, partial)
    weights = (torch.einsum("hd,shd->hs", q, k) * dim**-0.5).softmax(-1)
    torch.testing.assert_close(out, torch.einsum("hs,shd->hd", weights, v), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
