import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def convolution(N, C, H, W, F, K, S, D, P, block_M, block_N, block_K, num_stages=1, threads=128):
    KH, KW = K, K
    OH = (H + 2 * P - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (K - 1) - 1) // S + 1
    dtype, accum_dtype = "float16", "float"

    @T.prim_func
    def conv(
        data: T.Tensor((N, H, W, C), dtype),
        kernel: T.Tensor((KH, KW, C, F), dtype),
        out: T.Tensor((N, OH, OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=threads) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            kernel_shared = T.alloc_shared((block_K, block_N), dtype)
            out_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            out_shared = T.alloc_shared((block_M, block_N), dtype)
            kernel_flat = T.Tensor((KH * KW * C, F), dtype, kernel.data)
            out_flat = T.Tensor((N * OH * OW, F), dtype, out.data)
            T.clear(out_local)
            for k_iter in T.Pipelined(T.ceildiv(KH * KW * C, block_K), num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    k = k_iter * block_K + j
                    m = by * block_M + i
                    access_h = m % (OH * OW) // OW * S + k // (KW * C) * D - P
                    access_w = m % OW * S + k // C % KW * D - P
                    in_bound = (access_h >= 0) and (access_w >= 0) and (access_h < H) and (access_w < W)
                    data_shared[i, j] = T.if_then_else(in_bound, data[m // (OH * OW), access_h, access_w, k % C], 0)
                T.copy(kernel_flat[k_iter * block_K, bx * block_N], kernel_shared)
                T.gemm(data_shared, kernel_shared, out_local)
            T.copy(out_local, out_shared)
            T.copy(out_shared, out_flat[by * block_M, bx * block_N])

    return conv


@tilelang.jit(out_idx=[2])
def convolution_im2col(N, C, H, W, F, K, S, D, P, block_M, block_N, block_K):
    OH = (H + 2 * P - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (K - 1) - 1) // S + 1
    dtype = "float16"

    @T.prim_func
    def conv(
        data: T.Tensor((N, H, W, C), dtype),
        kernel: T.Tensor((K * K * C, F), dtype),
        out: T.Tensor((N * OH * OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=128) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            kernel_shared = T.alloc_shared((block_K, block_N), dtype)
            out_local = T.alloc_fragment((block_M, block_N), "float")
            T.clear(out_local)
            for k_iter in T.Pipelined(T.ceildiv(K * K * C, block_K), num_stages=2):
                T.c2d_im2col(data, data_shared, by, k_iter, K, S, D, P)
                T.copy(kernel[k_iter * block_K, bx * block_N], kernel_shared)
                T.gemm(data_shared, kernel_shared, out_local)
            T.copy(out_local, out[by * block_M, bx * block_N])

    return conv


def main(N=1, C=16, H=9, W=10, F=24, K=3, S=1, D=1, P=1):
    data = torch.randn(N, H, W, C).cuda().half()
    weight = torch.randn(K, K, C, F).cuda().half()
    ref = torch.conv2d(data.float().permute(0, 3, 1, 2), weight.float().permute(3, 2, 0, 1), stride=S, padding=P, dilation=D)
    ref = ref.permute(0, 2, 3, 1).half()
    out = convolution(N, C, H, W, F, K, S, D, P, 32, 16, 16)(data, weight)
    torch.testing.assert_close(out, ref, rtol=1e-2, atol=1e-1)
    out = convolution_im2col(N, C, H, W, F, K, S, D, P, 32, 16, 16)(data, weight.reshape(-1, F))
    torch.testing.assert_close(out.reshape(ref.shape), ref, rtol=1e-2, atol=1e-1)


if __name__ == "__main__":
    main()
