"""CUDA C++ as a language of the C-family printer: its words, and what it does not share with other SIMT languages."""

from __future__ import annotations

from tile_core.printer.language import Snippet
from tile_core.printer.simt import ANY_ATOMIC_ADD, Words, simt_language, spell

WORDS = Words(
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    barrier="__syncthreads()",
    shared="extern __shared__ __align__(1024) unsigned char tile_shared[];",
    vectors={16: "uint4", 8: "uint2", 4: "unsigned int", 2: "unsigned short"},
    compare_and_swap="atomicCAS",
    copy_bytes="memcpy",
    fence="__threadfence()",
    kernel='extern "C" __global__ void __launch_bounds__({threads}) {name}({parameters})',
)

_SHUFFLE = """
template <typename T>
__device__ __forceinline__ T tile_shuffle_xor(T value, int distance) {
  // The lanes that exist: the last warp of a block may be short.
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned lanes = threads - thread / 32u * 32u;
  return __shfl_xor_sync(lanes >= 32u ? 0xffffffffu : (1u << lanes) - 1u, value, distance);
}
"""
_ATOMIC_ADD = """
__device__ __forceinline__ int tile_atomic_add(int* address, int value) { return atomicAdd(address, value); }
__device__ __forceinline__ unsigned tile_atomic_add(unsigned* address, unsigned value) {
  return atomicAdd(address, value);
}
__device__ __forceinline__ float tile_atomic_add(float* address, float value) { return atomicAdd(address, value); }
__device__ __forceinline__ double tile_atomic_add(double* address, double value) { return atomicAdd(address, value); }
"""

CUDA = simt_language(
    "CUDA C++",
    WORDS,
    types={"float16": "__half", "bfloat16": "__nv_bfloat16"},
    literals={"float16": "__half({value}f)", "bfloat16": "__nv_bfloat16({value}f)"},
    snippets={
        "tile_shuffle_xor": Snippet(_SHUFFLE),
        "tile_atomic_add": Snippet(spell(ANY_ATOMIC_ADD, WORDS) + _ATOMIC_ADD.lstrip(), needs=("tile_atomic",)),
    },
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    header=("#include <cuda_bf16.h>", "#include <cuda_fp16.h>"),
)
