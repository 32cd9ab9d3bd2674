"""Loads that tell the second-level cache how long to keep what they read.

PTX ISA, "createpolicy" and "Cache Eviction Priority Hints". The hint is the instruction's operand, so that a tensor and
its neighbour in a cache line may differ; the compiler makes the constant once a thread. Nothing is stored to such
tensors while the kernel runs, so the compiler may move the loads like any other. Before sm_80 they are plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.ir.launch import EVICTIONS
from tile_core.printer.language import Snippet

_LOAD = """
// A vector from memory, at an address that is a multiple of its size, which the second-level cache gives up @when@.
template <typename Vector, typename T>
__device__ __forceinline__ Vector tile_load_@policy@(const T* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Vector) == 16) {
    unsigned words[4];
    unsigned long long policy;
    asm("createpolicy.fractional.L2::@policy@.b64 %0, 1.0;" : "=l"(policy));
    asm("ld.global.nc.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "l"(__cvta_generic_to_global(from)), "l"(policy));
    Vector vector;
    memcpy(&vector, words, 16);
    return vector;
  }
#endif
  return *reinterpret_cast<const Vector*>(from);
}
"""
_EMULATED = """
template <typename Vector, typename T>
inline Vector tile_load_@policy@(const T* from) {
  return *reinterpret_cast<const Vector*>(from);
}
"""
_WHEN = {"evict_first": "first", "evict_last": "last"}


def _spelled(text: str, policy: str) -> str:
    return text.replace("@policy@", policy).replace("@when@", _WHEN[policy])


SNIPPETS: Mapping[str, Snippet] = {
    f"tile_load_{policy}": Snippet(_spelled(_LOAD, policy), emulated=_spelled(_EMULATED, policy))
    for policy in EVICTIONS
    if policy in _WHEN
}
