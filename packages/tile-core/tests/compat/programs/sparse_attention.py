import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def native_sparse_attention(batch, heads, seq_len, dim, is_causal, scale=None, block_size=16, groups=4, selected_blocks=4, num_stages=0):
    if scale is None:
        scale = (1.0 / dim) ** 0.5 * 1.44269504
    head_kv = heads // groups
    q_shape = [batch, seq_len, heads, dim]
    kv_shape = [batch, seq_len, head_kv, dim]
    block_indices_shape = [batch, seq_len, head_kv, selected_blocks]
    dtype = "float16"
    accum_dtype = "float"
    block_S = block_size
    block_T = min(128, tilelang.math.next_power_of_2(dim))
    NV = tilelang.cdiv(dim, block_T)
    G = groups
    BS = block_S
    BK = BV = block_T

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        BlockIndices: T.Tensor(block_indices_shape, "int32"),
        Output: T.Tensor(q_shape, dtype),
    ):
        with T.Kernel(seq_len, NV, batch * head_kv, threads=32) as (bx, by, bz):
            Q_shared = T.alloc_shared([G, BK], dtype)
            K_shared = T.alloc_shared([BS, BK], dtype)
            V_shared = T.alloc_shared([BS, BV], dtype)
            O_shared = T.alloc_shared([G, BV], dtype)
            acc_s = T.alloc_fragment([G, BS], accum_dtype)
            acc_s_cast = T.alloc_shared([G, BS], dtype)
            acc_o = T.alloc_fragment([G, BV], accum_dtype)
            scores_max = T.alloc_fragment([G], accum_dtype)
            scores_max_prev = T.alloc_fragment([G], accum_dtype)
            scores_scale = T.alloc_fragment([G], accum_dtype)
            scores_sum = T.alloc_fragment([G], accum_dtype)
            logsum = T.alloc_fragment([G], accum_dtype)

            i_t, i_v, i_bh = bx, by, bz
            i_b, i_h = i_bh // head_kv, i_bh % head_kv

            NS = selected_blocks
            T.copy(Q[i_b, i_t, i_h * G : (i_h + 1) * G, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))

            for i in T.Pipelined(NS, num_stages=num_stages):
                i_s = BlockIndices[i_b, i_t, i_h, i] * BS
                if i_s <= i_t and i_s >= 0:
                    T.copy(K[i_b, i_s : i_s + BS, i_h, :], K_shared)
                    if is_causal:
                        for k, j in T.Parallel(G, BS):
                            acc_s[k, j] = T.if_then_else(i_t >= (i_s + j), 0, -T.infinity(acc_s.dtype))
                    else:
                        T.clear(acc_s)
                    T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(scores_max, scores_max_prev)
                    T.fill(scores_max, -T.infinity(accum_dtype))
                    T.reduce_max(acc_s, scores_max, dim=1, clear=True)
                    for k in T.Parallel(G):
                        scores_max[k] = T.max(scores_max[k], scores_max_prev[k])
                    for k in T.Parallel(G):
                        scores_scale[k] = T.exp2(scores_max_prev[k] * scale - scores_max[k] * scale)
                    for k, j in T.Parallel(G, BS):
                        acc_s[k, j] = T.exp2(acc_s[k, j] * scale - scores_max[k] * scale)
                    T.reduce_sum(acc_s, scores_sum, dim=1)
                    for k in T.Parallel(G):
                        logsum[k] = logsum[k] * scores_scale[k] + scores_sum[k]
                    T.copy(acc_s, acc_s_cast)
                    for k, j in T.Parallel(G, BV):
                        acc_o[k, j] *= scores_scale[k]
                    T.copy(V[i_b, i_s : i_s + BS, i_h, i_v * BV : (i_v + 1) * BV], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(G, BV):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[i_b, i_t, i_h * G : (i_h + 1) * G, i_v * BV : (i_v + 1) * BV])

    return main


def main(B=1, SEQ=24, H=8, G=4, D=32, S=2, block=8):
    kernel = native_sparse_attention(B, H, SEQ, D, True, None, block, G, S)
    q = torch.randn(B, SEQ, H, D).half().cuda()
    k, v = (torch.randn(B, SEQ, H // G, D).half().cuda() for _ in range(2))
    chosen = torch.full((B, SEQ, H // G, S), -1, dtype=torch.int32)
    for t in range(SEQ):
        count = min(S, t // block + 1)
        for h in range(H // G):
            chosen[0, t, h, :count] = torch.randperm(t // block + 1)[:count].int()
            chosen[0, t, h, 0] = t // block if t // block not in chosen[0, t, h, 1:count] else chosen[0, t, h, 0]
    out = kernel(q, k, v, chosen.cuda())
    ref = torch.zeros(B, SEQ, H, D)
    for t in range(SEQ):
        for h in range(H):
            at = sorted({int(b) * block + j for b in chosen[0, t, h // G] if b >= 0 for j in range(block)})
            at = [p for p in at if p <= t]
            s = (q[0, t, h].float() @ k[0, at, h // G].float().T) * D**-0.5
            ref[0, t, h] = s.softmax(-1).cpu() @ v[0, at, h // G].float().cpu()
    torch.testing.assert_close(out.float().cpu(), ref, rtol=1e-2, atol=1e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
