import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3, 4])
def linear_attention_fwd(B, S, H, DK, DV, chunk=32, dtype="float16", scale=None):
    if scale is None:
        scale = DK**-0.5
    accum_dtype = "float"
    NT = tilelang.cdiv(S, chunk)

    @T.prim_func
    def main(
        Q: T.Tensor([B, S, H, DK], dtype),
        K: T.Tensor([B, S, H, DK], dtype),
        V: T.Tensor([B, S, H, DV], dtype),
        O: T.Tensor([B, S, H, DV], accum_dtype),
        final_state: T.Tensor([B, H, DK, DV], accum_dtype),
    ):
        with T.Kernel(B * H, threads=128) as i_bh:
            i_b = i_bh // H
            i_h = i_bh % H
            q = T.alloc_shared([chunk, DK], dtype)
            k = T.alloc_shared([chunk, DK], dtype)
            v = T.alloc_shared([chunk, DV], dtype)
            h = T.alloc_fragment([DK, DV], accum_dtype)
            h_shared = T.alloc_shared([DK, DV], dtype)
            s = T.alloc_fragment([chunk, chunk], accum_dtype)
            s_shared = T.alloc_shared([chunk, chunk], dtype)
            o = T.alloc_fragment([chunk, DV], accum_dtype)
            T.annotate_layout({s_shared: tilelang.layout.make_swizzled_layout(s_shared)})
            T.use_swizzle(8)
            T.clear(h)
            for i in T.Pipelined(0, NT):
                for row, col in T.Parallel(chunk, DK):
                    q[row, col] = Q[i_b, i * chunk + row, i_h, col] * scale
                T.copy(K[i_b, i * chunk : (i + 1) * chunk, i_h, :], k)
                T.copy(V[i_b, i * chunk : (i + 1) * chunk, i_h, :], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk, chunk):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, h_shared, o)
                T.copy(o, O[i_b, i * chunk : (i + 1) * chunk, i_h, :])
            T.copy(h, final_state[i_b, i_h, :, :])

    return main


def main(B=2, S=96, H=2, D=32):
    q, k, v = (torch.randn(B, S, H, D).half().cuda() for _ in range(3))
    o, h = linear_attention_fwd(B, S, H, D, D)(q, k, v)
    qf, kf, vf = ((x.float().transpose(1, 2)) for x in (q, k, v))
    ref = ((qf * D**-0.5) @ kf.transpose(-1, -2)).tril() @ vf
    torch.testing.assert_close(o, ref.transpose(1, 2), rtol=2e-2, atol=5e-2)
    torch.testing.assert_close(h, kf.transpose(-1, -2) @ vf, rtol=2e-2, atol=5e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
