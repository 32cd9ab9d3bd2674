"""CUDA C++ as a language of the C-family printer: its words, and what it does not share with other SIMT languages."""

from __future__ import annotations

from dataclasses import replace

from tile_core.printer import messages
from tile_core.printer.language import Snippet
from tile_core.printer.simt import Words, simt_language
from tile_core.printer.snippets import ANY_ATOMIC_ADD, spell
from tile_cuda import caches, cluster, exchanges, functions, instructions, narrow, words
from tile_cuda.instructions import asynchronous, tensor_map
from tile_cuda.passes import note_descriptors

WORDS = Words(
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    barrier="__syncthreads()",
    shared="extern __shared__ __align__(1024) unsigned char tile_shared[];",
    vectors={32: "ulonglong4_32a", 16: "uint4", 8: "uint2", 4: "unsigned int", 2: "unsigned short"},
    compare_and_swap="atomicCAS",
    copy_bytes="memcpy",
    fence="__threadfence()",
    warp="32u",
    pairs=narrow.PAIRS,
    kernel='extern "C" __global__ void __launch_bounds__({bounds}) {name}({parameters})',
)

_ATOMIC_ADD = """
__device__ __forceinline__ int tile_atomic_add(int* address, int value) { return atomicAdd(address, value); }
__device__ __forceinline__ unsigned tile_atomic_add(unsigned* address, unsigned value) {
  return atomicAdd(address, value);
}
__device__ __forceinline__ float tile_atomic_add(float* address, float value) { return atomicAdd(address, value); }
__device__ __forceinline__ double tile_atomic_add(double* address, double value) { return atomicAdd(address, value); }
"""

# The function behind CUDA's own `assert`: the driver prints the message, and the launch ends with CUDA_ERROR_ASSERT.
_ASSERTION_FAILED = replace(
    messages.SNIPPETS[messages.FAIL],
    text="""
__device__ __noinline__ void tile_assertion_failed(const char* text, int number) {
  __assertfail(text, "assertion", static_cast<unsigned>(number), "kernel", sizeof(char));
}
""",
    needs=(),
)

CUDA = simt_language(
    "CUDA C++",
    WORDS,
    types={"float16": "__half", "bfloat16": "__nv_bfloat16", **narrow.FLOAT8, **words.TYPES},
    type_snippets=narrow.TYPE_SNIPPETS,
    literals={"float16": "__half({value}f)", "bfloat16": "__nv_bfloat16({value}f)"},
    snippets={
        **exchanges.SNIPPETS,
        **cluster.SNIPPETS,
        **functions.SNIPPETS,
        **words.SNIPPETS,
        **caches.SNIPPETS,
        messages.FAIL: _ASSERTION_FAILED,
        **narrow.SNIPPETS,
        "tile_atomic_add": Snippet(
            spell(ANY_ATOMIC_ADD, WORDS) + _ATOMIC_ADD.lstrip(), needs=("tile_atomic", "tile_sum")
        ),
        **asynchronous.SNIPPETS,
    },
    calls={
        **exchanges.CALLS,
        **instructions.CALLS,
        **note_descriptors.CALLS,
        **asynchronous.CALLS,
        **cluster.CALLS,
        **functions.CALLS,
        **words.CALLS,
    },
    descriptor=tensor_map.DESCRIPTOR_WORDS,
    expressions=words.EXPRESSIONS,
    vector_calls=words.VECTOR_CALLS,
    clusters=True,
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    header=("#include <cuda_bf16.h>", "#include <cuda_fp16.h>"),
)
