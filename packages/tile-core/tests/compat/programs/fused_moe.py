import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def moe_forward_routed(
    d_hidden, d_expert, n_experts, group_sum, group_count, block_token=16, block_hidden=32, block_expert=32, threads=128, num_stages=1
):
    scale = 1.44269504
    dtype, accum_type = "float16", "float"
    M = T.ceildiv(group_sum, block_token) + group_count

    @T.prim_func
    def kernel(
        inputs: T.Tensor((group_sum, d_hidden), dtype),
        w_gate: T.Tensor((n_experts, d_expert, d_hidden), dtype),
        w_up: T.Tensor((n_experts, d_expert, d_hidden), dtype),
        w_down: T.Tensor((n_experts, d_hidden, d_expert), dtype),
        weights: T.Tensor((group_sum,), dtype),
        group_sizes: T.Tensor((n_experts,), "int32"),
        group_offsets: T.Tensor((n_experts,), "int32"),
        group_padded_offsets: T.Tensor((n_experts,), "int32"),
        group_idx_for_bx: T.Tensor((M,), "int32"),
        up_logits: T.Tensor((group_sum, d_expert), dtype),
        output: T.Tensor((group_sum, d_hidden), dtype),
    ):
        with T.Kernel(M, T.ceildiv(d_expert, block_expert), threads=threads) as (bx, by):
            input_shared = T.alloc_fragment((block_token, block_hidden), dtype=dtype)
            gate_shared = T.alloc_shared((block_expert, block_hidden), dtype=dtype)
            up_shared = T.alloc_shared((block_expert, block_hidden), dtype=dtype)
            gate_local = T.alloc_fragment((block_token, block_expert), dtype=accum_type)
            up_local = T.alloc_fragment((block_token, block_expert), dtype=accum_type)
            cur_group_idx = T.alloc_local([1], "int32")
            cur_group_size = T.alloc_local([1], "int32")
            T.use_swizzle(10)
            m_start_padded = bx * block_token
            cur_group_idx[0] = group_idx_for_bx[bx]
            cur_group_size[0] = group_sizes[cur_group_idx[0]]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx[0]] + group_offsets[cur_group_idx[0]]
            actual_rows = T.max(
                0, T.min(block_token, cur_group_size[0] - (m_start_padded - group_padded_offsets[cur_group_idx[0]]))
            )
            T.clear(gate_local)
            T.clear(up_local)
            for k in T.Pipelined(T.ceildiv(d_hidden, block_hidden), num_stages=num_stages):
                T.copy(inputs[m_start : m_start + block_token, k * block_hidden : (k + 1) * block_hidden], input_shared)
                T.copy(
                    w_gate[
                        cur_group_idx[0], by * block_expert : (by + 1) * block_expert, k * block_hidden : (k + 1) * block_hidden
                    ],
                    gate_shared,
                )
                T.gemm(input_shared, gate_shared, gate_local, transpose_B=True)
                T.copy(
                    w_up[cur_group_idx[0], by * block_expert : (by + 1) * block_expert, k * block_hidden : (k + 1) * block_hidden],
                    up_shared,
                )
                T.gemm(input_shared, up_shared, up_local, transpose_B=True)
            for i, j in T.Parallel(block_token, block_expert):
                gate_local[i, j] = gate_local[i, j] * (1.0 / (1.0 + T.exp2(-gate_local[i, j] * scale)))
                up_local[i, j] = up_local[i, j] * gate_local[i, j]
            for i, j in T.Parallel(block_token, block_expert):
                if i < actual_rows:
                    up_logits[m_start + i, by * block_expert + j] = up_local[i, j]

        with T.Kernel(M, T.ceildiv(d_hidden, block_hidden), threads=threads) as (bx, by):
            up_shared = T.alloc_fragment((block_token, block_expert), dtype=dtype)
            down_shared = T.alloc_shared((block_hidden, block_expert), dtype=dtype)
            output_local = T.alloc_fragment((block_token, block_hidden), dtype=accum_type)
            cur_group_idx = T.alloc_local([1], "int32")
            cur_group_size = T.alloc_local([1], "int32")
            T.use_swizzle(10)
            m_start_padded = bx * block_token
            cur_group_idx[0] = group_idx_for_bx[bx]
            cur_group_size[0] = group_sizes[cur_group_idx[0]]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx[0]] + group_offsets[cur_group_idx[0]]
            actual_rows = T.max(
                0, T.min(block_token, cur_group_size[0] - (m_start_padded - group_padded_offsets[cur_group_idx[0]]))
            )
            T.clear(output_local)
            for k in T.Pipelined(T.ceildiv(d_expert, block_expert), num_stages=num_stages):
                T.copy(up_logits[m_start : m_start + block_token, k * block_expert : (k + 1) * block_expert], up_shared)
                T.copy(
                    w_down[
                        cur_group_idx[0], by * block_hidden : (by + 1) * block_hidden, k * block_expert : (k + 1) * block_expert
                    ],
                    down_shared,
                )
                T.gemm(up_shared, down_shared, output_local, transpose_B=True)
            for i, j in T.Parallel(block_token, block_hidden):
                if i < actual_rows:
                    output[m_start + i, by * block_hidden + j] = output_local[i, j] * weights[m_start + i]

    return kernel


SIZES = (64, 48, 4)


def main(block=16):
    hidden, expert, experts = SIZES
    sizes = [5, 0, 33, 16]
    total = sum(sizes)
    offsets = [sum(sizes[:i]) for i in range(experts)]
    padded = [-(-(size + 1) // block) * block for size in sizes]
    padded_offsets = [sum(padded[:i]) for i in range(experts)]
    blocks = -(-total // block) + experts
    owners = [max(e for e in range(experts) if padded_offsets[e] <= b * block) for b in range(blocks)]
    x = torch.randn(total, hidden).half().cuda() * 0.3
    gate, up = (torch.randn(experts, expert, hidden).half().cuda() * 0.3 for _ in range(2))
    down = torch.randn(experts, hidden, expert).half().cuda() * 0.3
    w = torch.rand(total).half().cuda()
    ints = [torch.tensor(v, dtype=torch.int32).cuda() for v in (sizes, offsets, padded_offsets, owners)]
    logits, out = torch.zeros(total, expert).half().cuda(), torch.zeros(total, hidden).half().cuda()
    moe_forward_routed(*SIZES, total, experts)(x, gate, up, down, w, *ints, logits, out)
    ref = torch.zeros(total, hidden)
    for e in range(experts):
        part = slice(offsets[e], offsets[e] + sizes[e])
        xe = x[part].float().cpu()
        h = torch.nn.functional.silu(xe @ gate[e].float().cpu().T) * (xe @ up[e].float().cpu().T)
        ref[part] = (h @ down[e].float().cpu().T) * w[part, None].float().cpu()
    torch.testing.assert_close(out.float().cpu(), ref, rtol=2e-2, atol=2e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
