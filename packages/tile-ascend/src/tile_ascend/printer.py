"""Ascend C as a language of the C-family printer: its words, and what it does not share with other SIMT languages.

A kernel is the program of one AI core (`launches.py`), and the work of threads is in SIMT functions that it calls. The
names are those of CANN's C interface for NPU architecture 3510 (`c_api`, `simt_api`). Pointers to global memory and to
the unified buffer are different types there, so every pointer says where it points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tile_ascend import exchanges
from tile_ascend.cube import is_for_cube
from tile_ascend.launches import print_launch
from tile_core.ir import regions
from tile_core.printer import messages
from tile_core.printer.language import ExprHandler, Snippet
from tile_core.printer.simt import Words, simt_language, snippet_call
from tile_core.printer.snippets import ANY_ATOMIC_ADD, spell

GLOBAL, UNIFIED = "__gm__ ", "__ubuf__ "

WORDS = Words(
    block="",
    thread="int(threadIdx.{axis})",
    barrier="asc_syncthreads()",
    shared="",
    vectors={2: "uint16_t", 4: "uint32_t", 8: "tile_uint2", 16: "tile_uint4"},
    compare_and_swap="tile_swap_if",
    copy_bytes="__builtin_memcpy",
    fence="asc_threadfence()",
    warp="32u",
    kernel='extern "C" __global__ {unit} void {name}({parameters})',
    inline="__simt_callee__ inline",
    spaces={regions.GLOBAL: GLOBAL, **dict.fromkeys(regions.SHARED, UNIFIED)},
)

PRELUDE = """\
#if defined(__NPU_ARCH__)
#include "c_api/asc_simd.h"
#include "simt_api/asc_simt.h"
#include "simt_api/asc_fp16.h"
#include "simt_api/asc_bf16.h"
#include "simt_api/math_functions.h"
// The part of the unified buffer in which the tiles of a kernel lie.
#define TILE_UNIFIED_BUFFER(bytes) __ubuf__ alignas(128) unsigned char tile_shared[bytes]
// The memories of the Cube unit.
#define TILE_CUBE_BUFFERS(l1, l0a, l0b, l0c)             \\
  __cbuf__ alignas(512) unsigned char tile_l1[l1];       \\
  __ca__ alignas(512) unsigned char tile_l0a[l0a];       \\
  __cb__ alignas(512) unsigned char tile_l0b[l0b];       \\
  __cc__ alignas(512) unsigned char tile_l0c[l0c]
typedef uint32_t tile_uint2 __attribute__((ext_vector_type(2)));
typedef uint32_t tile_uint4 __attribute__((ext_vector_type(4)));
#else
#include "ascend_emulator.h"
#endif
"""

_SWAP_IF = """
// The value before.
template <typename Word>
@inline@ Word tile_swap_if(@memory@Word* address, Word expected, Word wanted) {
  if constexpr (sizeof(Word) == 8) {
    return asc_atomic_cas(reinterpret_cast<@memory@uint64_t*>(address), uint64_t(expected), uint64_t(wanted));
  } else {
    return asc_atomic_cas(reinterpret_cast<@memory@uint32_t*>(address), uint32_t(expected), uint32_t(wanted));
  }
}
"""
_ATOMIC_ADD = "".join(
    f"@inline@ {kind} tile_atomic_add(@memory@{kind}* address, {kind} value) {{\n"
    "  return asc_atomic_add(address, value);\n}\n"
    for kind in ("int", "unsigned", "float")
)
_POPCOUNT = """
@inline@ int tile_popcount(unsigned long long bits) {
  int count = 0;
  for (; bits != 0; bits &= bits - 1) ++count;
  return count;
}
"""
# Leading zeros of a value that is not 0, in a type of `sizeof(T)` bytes.
_CLZ = """
template <typename T>
@inline@ int tile_clz(T bits) {
  int zeros = 0;
  for (T bit = T(1) << (8 * sizeof(T) - 1); bit != 0 && !(bits & bit); bit >>= 1) ++zeros;
  return zeros;
}
"""
_FAIL = """
// Prints what failed, and stops the kernel.
@inline@ void tile_assertion_failed(const char* text, int number) {
  printf("assertion %d failed: %s\\n", number, text);
  assert(false);
}
"""

_SNIPPETS = {
    "tile_swap_if": Snippet(spell(_SWAP_IF, WORDS)),
    "tile_atomic_add": Snippet(spell(ANY_ATOMIC_ADD, WORDS) + spell(_ATOMIC_ADD, WORDS), ("tile_atomic", "tile_sum")),
    "tile_popcount": Snippet(spell(_POPCOUNT, WORDS)),
    "tile_clz": Snippet(spell(_CLZ, WORDS)),
    # Declared by the headers of the prelude.
    messages.PRINTF: replace(messages.SNIPPETS[messages.PRINTF], text=""),
    messages.FAIL: replace(messages.SNIPPETS[messages.FAIL], text=spell(_FAIL, WORDS)),
}
_CALLS: Mapping[str, ExprHandler] = {
    "tirx.popcount": snippet_call("tile_popcount"),
    "prim.clz": snippet_call("tile_clz"),
}

_SIMT = simt_language(
    "Ascend C",
    WORDS,
    types={
        "float16": "half",
        "bfloat16": "bfloat16_t",
    },
    literals={"float16": "half({value}f)", "bfloat16": "bfloat16_t({value}f)"},
    snippets={**_SNIPPETS, **exchanges.SNIPPETS},
    calls={**exchanges.CALLS, **_CALLS},
    header=(PRELUDE,),
)
# The vector unit has no arithmetic on float64, and no such type.
ASCEND_C = replace(
    _SIMT,
    types={dtype: name for dtype, name in _SIMT.types.items() if dtype != "float64"},
    launch=print_launch,
    unit=lambda kernel: "__cube__" if is_for_cube(kernel.func.body) else "__vector__",
)
