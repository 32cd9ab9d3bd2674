import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def mqa_attn_return_logits(heads, index_dim, block_N=32, num_stages=1, threads=128, block_Q=None):
    if block_Q is None:
        block_Q = 64 // heads
    dtype = T.float8_e4m3fn
    accum_dtype = T.float32
    index_dtype = T.int32
    seq_len = T.dynamic("seq_len")
    seq_len_kv = T.dynamic("seq_len_kv")

    @T.prim_func
    def kernel(
        IndexQ: T.Tensor([seq_len * heads, index_dim], dtype),
        IndexK: T.Tensor([seq_len_kv, index_dim], dtype),
        IndexKScale: T.Tensor([seq_len_kv], accum_dtype),
        Logits: T.Tensor([seq_len, seq_len_kv], accum_dtype),
        Weights: T.Tensor([seq_len, heads], accum_dtype),
        CuSeqLenKS: T.Tensor([seq_len], index_dtype),
        CuSeqLenKE: T.Tensor([seq_len], index_dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_Q), threads=threads) as bx:
            index_q_shared = T.alloc_shared([block_Q * heads, index_dim], dtype)
            index_k_shared = T.alloc_shared([block_N, index_dim], dtype)
            index_k_scale_fragment = T.alloc_fragment([block_N], accum_dtype)
            s = T.alloc_fragment([block_N, block_Q * heads], accum_dtype)
            s_reshaped = T.reshape(s, (block_N, block_Q, heads))
            logits = T.alloc_fragment([block_N, block_Q], accum_dtype)
            weights = T.alloc_fragment([block_Q, heads], accum_dtype)

            seq_len_i = bx * block_Q
            cu_k_s_min = T.alloc_var(index_dtype)
            cu_k_e_max = T.alloc_var(index_dtype)
            cu_k_s_min = 2147483647
            cu_k_e_max = -2147483648
            for bq_i in T.serial(block_Q):
                cu_k_s_min = T.min(cu_k_s_min, T.min(CuSeqLenKS[T.min(seq_len_i + bq_i, seq_len - 1)], seq_len_kv))
            for bq_i in T.serial(block_Q):
                cu_k_e_max = T.max(cu_k_e_max, T.min(CuSeqLenKE[T.min(seq_len_i + bq_i, seq_len - 1)], seq_len_kv))
            T.copy(IndexQ[seq_len_i * heads, 0], index_q_shared)
            T.copy(Weights[seq_len_i, 0], weights)
            for nbn_i in T.Pipelined(T.ceildiv(cu_k_e_max - cu_k_s_min, block_N), num_stages=num_stages):
                T.copy(IndexK[cu_k_s_min + nbn_i * block_N, 0], index_k_shared)
                T.copy(IndexKScale[cu_k_s_min + nbn_i * block_N], index_k_scale_fragment)
                T.gemm(
                    index_k_shared,
                    index_q_shared,
                    s,
                    transpose_B=True,
                    clear_accum=True,
                    policy=T.GemmWarpPolicy.FullCol,
                )
                for bn_i, bq_i, h_i in T.Parallel(block_N, block_Q, heads):
                    s_reshaped[bn_i, bq_i, h_i] = (
                        T.max(s_reshaped[bn_i, bq_i, h_i], 0) * weights[bq_i, h_i]
                    ) * index_k_scale_fragment[bn_i]
                T.reduce_sum(s_reshaped, logits, dim=-1, clear=True)
                for bq_i, bn_i in T.Parallel(block_Q, block_N):
                    Logits[seq_len_i + bq_i, cu_k_s_min + nbn_i * block_N + bn_i] = logits[bn_i, bq_i]

    return kernel


def main(S=30, SKV=75, H=8, D=32):
    q = torch.randn(S * H, D).cuda().to(torch.float8_e4m3fn)
    k = torch.randn(SKV, D).cuda().to(torch.float8_e4m3fn)
    scale, weights = torch.rand(SKV).cuda(), torch.randn(S, H).cuda()
    ks = torch.zeros(S, dtype=torch.int32).cuda()
    ke = (torch.arange(S, dtype=torch.int32) + SKV - S + 1).cuda()
    logits = torch.full((S, SKV), float("-inf")).cuda()
    mqa_attn_return_logits(H, D)(q, k, scale, logits, weights, ks, ke)
    s = torch.einsum("qhd,kd->qkh", q.float().view(S, H, D), k.float()).relu()
    ref = (s * weights[:, None, :]).sum(-1) * scale
    inside = torch.arange(SKV).cuda()[None] < ke[:, None]
    torch.testing.assert_close(logits[inside], ref[inside], rtol=1e-4, atol=1e-3)
    print("All checks pass.")


if __name__ == "__main__":
    main()
