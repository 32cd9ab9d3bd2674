import itertools

import tilelang
import tilelang.language as T
import torch
from tilelang.autotuner import AutoTuner, autotune, set_autotune_inputs


def ref_program(A, B):
    return A @ B.T


def get_configs():
    iter_params = dict(block_M=[16, 32], block_N=[32], block_K=[16], num_stages=[0, 2], thread_num=[128])
    return [dict(zip(iter_params, values)) for values in itertools.product(*iter_params.values())]


@autotune(configs=get_configs(), warmup=3, rep=10, ref_prog=ref_program, atol=1e-2, rtol=1e-2, cache_input_tensors=True)
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=32, num_stages=3, thread_num=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((N, K), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float32")
            B_shared = T.alloc_shared((block_N, block_K), "float32")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def copy_program(N, block_N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            T.copy(A[bx * block_N : (bx + 1) * block_N], B[bx * block_N : (bx + 1) * block_N])

    return main


def main():
    M, N, K = 64, 48, 32
    kernel = matmul(M, N, K)
    print(kernel.latency, kernel.config, kernel.ref_latency)
    assert set(kernel.config) == {"block_M", "block_N", "block_K", "num_stages", "thread_num"}
    assert kernel.latency > 0 and kernel.ref_latency > 0
    assert kernel.get_tuner_result()["config"] == kernel.config
    assert matmul(M, N, K) is kernel
    a, b = torch.randn(M, K, device="cuda"), torch.randn(N, K, device="cuda")
    torch.testing.assert_close(kernel(a, b), ref_program(a, b), rtol=1e-4, atol=1e-4)
    with set_autotune_inputs(a, b):
        tuned = matmul(M, N, K)
    assert tuned is kernel
    explicit = matmul(M, N, K, block_M=16, block_N=16, block_K=16, num_stages=0, thread_num=64)
    assert explicit.config is None

    def kernel_of(block_N=None):
        return copy_program(300, block_N)

    tuner = (
        AutoTuner.from_kernel(kernel=kernel_of, configs=[{"block_N": 64}, {"block_N": 128}])
        .set_compile_args(out_idx=[-1], target="auto")
        .set_profile_args(supply_type=tilelang.TensorSupplyType.Integer, ref_prog=lambda a: a, skip_check=False)
    )
    result = tuner.run(warmup=3, rep=10)
    print(result.config, result.latency)
    x = torch.randn(300, device="cuda")
    assert torch.equal(result.kernel(x), x)


if __name__ == "__main__":
    main()
