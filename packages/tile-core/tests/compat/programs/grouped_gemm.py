import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def grouped_gemm(sizes, K, N, block_M, block_N, block_K, dtype="float16"):
    batch_sum, batch_count = sum(sizes), len(sizes)
    total_m_blocks = sum((size + block_M - 1) // block_M for size in sizes)

    @T.prim_func
    def kernel(
        A: T.Tensor([batch_sum, K], dtype),
        B: T.Tensor([batch_count, K, N], dtype),
        C: T.Tensor([batch_sum, N], dtype),
        batch_sizes: T.Tensor([batch_count], "int32"),
        batch_offsets: T.Tensor([batch_count], "int32"),
        padded_offsets: T.Tensor([batch_count], "int32"),
    ):
        with T.Kernel(total_m_blocks, T.ceildiv(N, block_N), threads=128) as (bx, by):
            A_shared = T.alloc_shared([block_M, block_K], dtype)
            B_shared = T.alloc_shared([block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], "float32")
            cur_batch = T.alloc_var(dtype="int32")
            m_start_padded = bx * block_M
            for i in range(batch_count):
                in_cur = m_start_padded >= padded_offsets[i]
                cur_batch = T.if_then_else(in_cur, i, cur_batch)
            size = batch_sizes[cur_batch]
            m_start = m_start_padded - padded_offsets[cur_batch] + batch_offsets[cur_batch]
            rows = T.max(0, T.min(block_M, size + padded_offsets[cur_batch] - m_start_padded))
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=1):
                T.copy(A[m_start : m_start + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[cur_batch, k * block_K : (k + 1) * block_K, by * block_N : (by + 1) * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                if i < rows:
                    C[m_start + i, by * block_N + j] = C_local[i, j]

    return kernel


def main(K=32, N=48, block_M=16):
    sizes = (20, 1, 33)
    a = torch.randn(sum(sizes), K, device="cuda").half()
    b = torch.randn(len(sizes), K, N, device="cuda").half()
    offsets, padded = [0], [0]
    for size in sizes[:-1]:
        offsets.append(offsets[-1] + size)
        padded.append(padded[-1] + -(-size // block_M) * block_M)
    tables = [torch.tensor(values, dtype=torch.int32, device="cuda") for values in (sizes, offsets, padded)]
    c = grouped_gemm(sizes, K, N, block_M, 16, 16)(a, b, *tables)
    expected = torch.cat([x.float() @ w.float() for x, w in zip(a.split(sizes), b)]).half()
    torch.testing.assert_close(c, expected, rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    main()
