"""HIP C++ as a language of the C-family printer: its words, and what it does not share with other SIMT languages.

The printed source needs no header of ROCm. It is written on Clang's AMDGPU builtins and the functions of the device
library (`__ocml_…`, declared where they are used), so that any Clang compiles it, and what is compiled without ROCm is
what HIPRTC compiles with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tile_core.passes.load_ahead import SCHEDULE_BARRIER
from tile_core.printer.c import SIGMOID
from tile_core.printer.language import ExprHandler, Function, Node, Snippet
from tile_core.printer.precedence import Code
from tile_core.printer.printer import Printer
from tile_core.printer.simt import Words, simt_language, snippet_call
from tile_core.printer.snippets import ANY_ATOMIC_ADD, spell
from tile_rocm import exchanges, narrow
from tile_rocm.instructions import matrix

WORDS = Words(
    block="__builtin_amdgcn_workgroup_id_{axis}()",
    thread="__builtin_amdgcn_workitem_id_{axis}()",
    barrier="tile_barrier()",
    shared="extern __shared__ __attribute__((aligned(1024))) unsigned char tile_shared[];",
    vectors={16: "tile_uint4", 8: "tile_uint2", 4: "unsigned", 2: "unsigned short"},
    compare_and_swap="tile_compare_and_swap",
    copy_bytes="__builtin_memcpy",
    fence='__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent")',
    warp="unsigned(TILE_WAVE)",
    kernel='extern "C" __global__ __attribute__((amdgpu_flat_work_group_size({threads}, {threads}))) '
    "void {name}({parameters})",
)

PRELUDE = """\
#if !defined(__HIP__)
#include "hip_emulator.h"
#else
// What this source needs of HIP. No header of ROCm is read; HIPRTC brings the first three words itself.
#if !defined(__HIPCC_RTC__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#if !defined(__forceinline__)
#define __forceinline__ inline __attribute__((always_inline))
#endif
// The lanes of a wave.
#if defined(__GFX9__)
#define TILE_WAVE 64
#else
#define TILE_WAVE 32
#endif
typedef unsigned tile_uint2 __attribute__((ext_vector_type(2)));
typedef unsigned tile_uint4 __attribute__((ext_vector_type(4)));
typedef _Float16 half_t;
struct bfloat16_t {
  // A value of its own type rounds after every operation; Clang may keep sums of `__bf16` in float.
  __bf16 value;
  bfloat16_t() = default;
  __device__ __forceinline__ bfloat16_t(float x) : value(static_cast<__bf16>(x)) {}
  __device__ __forceinline__ operator float() const { return static_cast<float>(value); }
  friend __device__ __forceinline__ bfloat16_t operator+(bfloat16_t a, bfloat16_t b) { return float(a) + float(b); }
  friend __device__ __forceinline__ bfloat16_t operator-(bfloat16_t a, bfloat16_t b) { return float(a) - float(b); }
  friend __device__ __forceinline__ bfloat16_t operator*(bfloat16_t a, bfloat16_t b) { return float(a) * float(b); }
  friend __device__ __forceinline__ bfloat16_t operator/(bfloat16_t a, bfloat16_t b) { return float(a) / float(b); }
};
#endif
"""

_SNIPPETS = {
    "tile_barrier": Snippet("""
__device__ __forceinline__ void tile_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"""),
    "tile_compare_and_swap": Snippet("""
template <typename Word>
__device__ __forceinline__ Word tile_compare_and_swap(Word* address, Word expected, Word wanted) {
  __hip_atomic_compare_exchange_strong(address, &expected, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
"""),
    "tile_atomic_add": Snippet(
        spell(ANY_ATOMIC_ADD, WORDS)
        + "".join(
            f"__device__ __forceinline__ {kind} tile_atomic_add({kind}* address, {kind} value) {{\n"
            "  return __hip_atomic_fetch_add(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);\n"
            "}\n"
            for kind in ("int", "unsigned", "float", "double")
        ),
        needs=("tile_atomic", "tile_sum"),
    ),
}

# Functions of the device library and the name there; the rest are single instructions, which builtins name.
_LIBRARY = {
    **{f"tirx.{name}": name for name in "exp exp2 exp10 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh".split()},
    **{f"tirx.{name}": name for name in "asin acos atan asinh acosh atanh atan2 pow erf hypot nextafter".split()},
    "prim.log2": "log2",
    "tirx.rsqrt": "rsqrt",
    "tirx.fmod": "fmod",
    "tile.fmod": "fmod",
}
_BUILTIN = {
    **{f"tirx.{name}": name for name in "floor trunc fabs fma copysign nearbyint".split()},
    "prim.ceil": "ceil",
    "tirx.round": "nearbyint",
    "tile.round": "round",
    "tile.fma": "fma",
    "tile.maxnum": "fmax",
    "tile.minnum": "fmin",
}
_SUFFIXES = {"float32": "f32", "float64": "f64"}


def _declaration(name: str, suffix: str, arguments: int) -> Snippet:
    kind = "float" if suffix == "f32" else "double"
    return Snippet(f'extern "C" __device__ {kind} __ocml_{name}_{suffix}({", ".join([kind] * arguments)});')


def _library_function(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        suffix = _SUFFIXES.get(printer.dtype(node.args[0]))
        if suffix is None:
            raise printer.unprintable(printer.describe(node), node)
        return snippet_call(f"__ocml_{name}_{suffix}")(printer, node)

    return handler


def _builtin(name: str) -> Function:
    return Function({"float32": f"__builtin_{name}f", "float64": f"__builtin_{name}"})


def _test(name: str) -> Function:
    return Function(dict.fromkeys(_SUFFIXES, f"__builtin_{name}"))


def _sigmoid(printer: Printer, node: Node) -> Code:
    for suffix in _SUFFIXES.values():
        printer.snippet(f"__ocml_exp_{suffix}")
    return _SIGMOID(printer, node)


_SIGMOID = replace(SIGMOID, parts={**SIGMOID.parts, "exp": {"float32": "__ocml_exp_f32", "float64": "__ocml_exp_f64"}})
_CALLS: Mapping[str, ExprHandler] = {
    "tirx.sigmoid": _sigmoid,
    "tirx.popcount": Function({"uint32": "__builtin_popcount", "uint64": "__builtin_popcountll"}),
    "prim.clz": Function({"uint32": "__builtin_clz", "uint64": "__builtin_clzll"}),
    "tile.barrier": snippet_call("tile_barrier"),
    SCHEDULE_BARRIER: lambda _printer, _node: Code("__builtin_amdgcn_sched_barrier(0)"),
    **{op: _library_function(name) for op, name in _LIBRARY.items()},
    **{op: _builtin(name) for op, name in _BUILTIN.items()},
    **{f"tirx.{name}": _test(name) for name in ("isnan", "isinf", "isfinite")},
}
_OF_TWO = frozenset({"atan2", "pow", "hypot", "nextafter", "fmod"})
_DECLARATIONS = {
    f"__ocml_{name}_{suffix}": _declaration(name, suffix, 2 if name in _OF_TWO else 1)
    for name in set(_LIBRARY.values())
    for suffix in _SUFFIXES.values()
}

HIP = simt_language(
    "HIP C++",
    WORDS,
    types={"float16": "half_t", "bfloat16": "bfloat16_t", **narrow.FLOAT8},
    type_snippets=narrow.TYPE_SNIPPETS,
    literals={"float16": "half_t({value}f)", "bfloat16": "bfloat16_t({value}f)"},
    snippets={**_SNIPPETS, **exchanges.SNIPPETS, **narrow.SNIPPETS, **_DECLARATIONS},
    calls={**exchanges.CALLS, **matrix.CALLS, **_CALLS},
    infinity="__builtin_inff()",
    nan='__builtin_nanf("")',
    header=(PRELUDE,),
)
