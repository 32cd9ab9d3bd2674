"""How HIP C++ spells what the threads of a wave or a block do together.

Everything is over Clang's AMDGPU builtins. The hardware exchanges between the lanes that are active, so a mask of some
lanes is refused, not ignored. (LLVM, "User Guide for AMDGPU Backend"; AMD ISA guides, DS_BPERMUTE_B32.)
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import EQUAL, NOT_EQUAL, Code, Infix, call, prefix
from tile_core.printer.printer import Printer
from tile_core.printer.simt import snippet_call
from tile_core.printer.together import block_votes, require_all_lanes, thread_counter, whole_warp


def _ballot(printer: Printer, predicate: Code) -> Code:
    printer.snippet("tile_ballot")
    return call("tile_ballot", predicate)


def _vote(compare: Infix, *, of_not: bool) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        predicate, mask = node.args
        require_all_lanes(printer, node, mask)
        code = printer.expr(predicate)
        return compare.join(_ballot(printer, prefix("!", code) if of_not else code), Code("0"))

    return handler


def _ballot_of(printer: Printer, node: Node) -> Code:
    predicate, mask = node.args
    require_all_lanes(printer, node, mask)
    return _ballot(printer, printer.expr(predicate))


_LANE = """
__device__ __forceinline__ int tile_lane() {
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
"""
_BALLOT = """
// The active lanes on which `predicate` holds.
__device__ __forceinline__ unsigned long long tile_ballot(bool predicate) {
#if TILE_WAVE == 64
  return __builtin_amdgcn_ballot_w64(predicate);
#else
  return __builtin_amdgcn_ballot_w32(predicate);
#endif
}
"""
_SHUFFLE = """
// The value of a lane. The lanes of a wave exchange 4 bytes at a time; a lane is addressed by 4 times its number.
template <typename T>
__device__ __forceinline__ T tile_shuffle(T value, int lane) {
  int words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(lane * 4, word);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
"""
_LANES = """
__device__ __forceinline__ unsigned tile_lanes() { return __builtin_popcountll(tile_ballot(true)); }
"""
_COUNT_THREADS = """
// A barrier whose value is the number of threads of the block on which `predicate` holds.
__device__ __forceinline__ unsigned tile_count_threads(bool predicate) {
  __shared__ unsigned counted;
  const unsigned votes = __builtin_popcountll(tile_ballot(predicate));
  const bool is_first = __builtin_amdgcn_readfirstlane(tile_lane()) == tile_lane();
  tile_barrier();
  if ((__builtin_amdgcn_workitem_id_x() | __builtin_amdgcn_workitem_id_y() | __builtin_amdgcn_workitem_id_z()) == 0)
    counted = 0;
  tile_barrier();
  if (is_first) __hip_atomic_fetch_add(&counted, votes, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  tile_barrier();
  return counted;
}
"""
_SYNC_WAVE = """
__device__ __forceinline__ void tile_sync_wave() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
"""
SNIPPETS: Mapping[str, Snippet] = {
    "tile_lane": Snippet(_LANE),
    "tile_ballot": Snippet(
        _BALLOT,
        emulated="__forceinline__ uint64_t tile_ballot(bool predicate) {\n"
        "  return tile::ballot(tile::converged_lanes(), predicate);\n}",
    ),
    "tile_lanes": Snippet(_LANES, needs=("tile_ballot",)),
    "tile_shuffle": Snippet(_SHUFFLE),
    "tile_count_threads": thread_counter(_COUNT_THREADS, "tile_barrier", "tile_ballot", "tile_lane"),
    "tile_sync_wave": Snippet(
        _SYNC_WAVE, emulated="inline void tile_sync_wave() { tile::meet_warp(tile::live_lanes(), true); }"
    ),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.any_sync": _vote(NOT_EQUAL, of_not=False),
    "tile.all_sync": _vote(EQUAL, of_not=True),
    "tile.ballot_sync": _ballot_of,
    "tile.activemask": lambda printer, _node: _ballot(printer, Code("true")),
    **block_votes(),
    **whole_warp(snippet_call("tile_sync_wave")),
}
