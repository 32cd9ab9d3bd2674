import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def flashattn_sink(batch, heads, seq_q, seq_kv, dim, groups=1, window_size=None, block_M=32, block_N=32, num_stages=1, threads=128, dtype=T.float16):
    if window_size is not None:
        assert window_size % block_N == 0, "window_size must be divisible by block_N"
    sm_scale = (1.0 / dim) ** 0.5
    scale = sm_scale * 1.44269504
    head_kv = heads // groups
    q_shape = [batch, heads, seq_q, dim]
    kv_shape = [batch, head_kv, seq_kv, dim]
    accum_dtype = T.float32
    past_len = seq_kv - seq_q
    assert past_len >= 0

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
        Sinks: T.Tensor([heads], dtype),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_M], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
            scores_scale = T.alloc_fragment([block_M], accum_dtype)
            scores_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)
            sinks = T.alloc_fragment([block_M], dtype)

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))
            for i in T.Parallel(block_M):
                sinks[i] = Sinks[by]

            end = T.min(T.ceildiv(seq_kv, block_N), T.ceildiv((bx + 1) * block_M + past_len, block_N))
            start = T.alloc_var("int32")
            if window_size is not None:
                start = T.max(0, (bx * block_M + past_len - window_size) // block_N)
            else:
                start = 0

            for k in T.Pipelined(start, end, num_stages=num_stages):
                T.copy(K[bz, by // groups, k * block_N : (k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    q_idx = bx * block_M + i + past_len
                    k_idx = k * block_N + j
                    if window_size is not None:
                        acc_s[i, j] = T.if_then_else(q_idx >= k_idx and q_idx < k_idx + window_size, 0, -T.infinity(acc_s.dtype))
                    else:
                        acc_s[i, j] = T.if_then_else(q_idx >= k_idx, 0, -T.infinity(acc_s.dtype))
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                if window_size is not None:
                    for i in T.Parallel(block_M):
                        scores_max[i] = T.if_then_else(scores_max[i] == -T.infinity(accum_dtype), 0, scores_max[i])
                for i in T.Parallel(block_M):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bz, by // groups, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                logsum[i] += T.exp2(sinks[i] * 1.44269504 - scores_max[i] * scale)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return main


def ref_program(q, k, v, sinks, window):
    b, h, m, d = q.shape
    n = k.shape[2]
    k, v = (x.float().repeat_interleave(h // k.shape[1], 1) for x in (k, v))
    s = q.float() @ k.transpose(-1, -2) * d**-0.5
    i = torch.arange(m, device=q.device)[:, None] + n - m
    j = torch.arange(n, device=q.device)[None]
    mask = j > i
    if window is not None:
        mask = mask | (i >= j + window)
    s = s.masked_fill(mask, float("-inf"))
    s = torch.cat([s, sinks.float()[None, :, None, None].expand(b, h, m, 1)], -1)
    return s.softmax(-1)[..., :-1] @ v


def main(batch=1, heads=4, seq_q=64, seq_kv=96, dim=32):
    q = torch.randn(batch, heads, seq_q, dim).half().cuda()
    k, v = (torch.randn(batch, heads // 2, seq_kv, dim).half().cuda() for _ in range(2))
    sinks = torch.randn(heads).half().cuda()
    for window in (None, 32):
        out = flashattn_sink(batch, heads, seq_q, seq_kv, dim, 2, window)(q, k, v, sinks)
        torch.testing.assert_close(out.float(), ref_program(q, k, v, sinks, window), rtol=1e-2, atol=1e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
