"""A persistent product with weights of four bits, which functions of TVM unpack."""

import tilelang
import tilelang.language as T
import torch
from tilelang.carver.arch import driver
from tilelang.engine.callback import register_cuda_postproc_callback  # noqa: F401
from tvm import tirx


def unpack(byte: tirx.PrimExpr, at: tirx.PrimExpr) -> tirx.PrimExpr:
    """One e2m1 value of two in a byte, without subnormals, as float16."""
    four = tirx.const(4, T.uint16)
    bits = (byte.astype(T.uint16) >> (at.astype(T.uint16) * four)) & tirx.const(15, T.uint16)
    sign, exponent = bits >> tirx.const(3, T.uint16), (bits & tirx.const(6, T.uint16)) >> tirx.const(1, T.uint16)
    mantissa = bits & tirx.const(1, T.uint16)
    raised = exponent + tirx.const(14, T.uint16)
    packed = (raised | (sign << tirx.const(5, T.uint16))) << tirx.const(10, T.uint16) | mantissa << tirx.const(9, T.uint16)
    return tirx.reinterpret(T.float16, packed.astype(T.uint16))


def unpacked(weights):
    bits = torch.stack([weights & 15, weights >> 4], dim=-1).flatten(1).to(torch.int32)
    raised = ((bits >> 1) & 3) + 14
    packed = (raised | (bits >> 3) << 5) << 10 | (bits & 1) << 9
    return packed.to(torch.int16).view(torch.float16)


@tilelang.jit(out_idx=[2])
def product(M, N, K, block_M=32, block_N=32, block_K=32, threads=128):
    blocks = driver.get_num_sms()
    rows, columns = T.ceildiv(M, block_M), T.ceildiv(N, block_N)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K // 2), T.uint8),
        C: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            packed = T.alloc_fragment((block_N, block_K // 2), T.uint8)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            total = T.alloc_fragment((block_M, block_N), T.float32)
            for turn in T.serial(T.ceildiv(rows * columns, blocks)):
                tile = turn * blocks + bx
                if tile < rows * columns:
                    by, bn = tile // columns, tile % columns
                    T.clear(total)
                    for k in T.serial(T.ceildiv(K, block_K)):
                        T.copy(A[by * block_M, k * block_K], A_shared, disable_tma=True)
                        T.copy(B[bn * block_N, k * block_K // 2], packed)
                        for i, j in T.Parallel(block_N, block_K):
                            B_shared[i, j] = unpack(packed[i, j // 2], j % 2)
                        T.gemm(A_shared, B_shared, total, transpose_B=True)
                    T.copy(total, C[by * block_M, bn * block_N])

    return main


if __name__ == "__main__":
    M, N, K = 96, 64, 64
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    weights = torch.randint(0, 256, (N, K // 2), device="cuda", dtype=torch.uint8)
    torch.testing.assert_close(
        product(M, N, K)(a, weights), a.float() @ unpacked(weights).float().T, rtol=1e-2, atol=1e-2
    )
    print("All checks pass.")
