"""How Ascend C spells what the threads of a warp or of a SIMT function do together.

A warp has 32 lanes. The hardware exchanges between the lanes that are active, so a mask of some lanes is refused, not
ignored. (CANN, SIMT API: `asc_shfl`, `asc_ballot`, `asc_activemask`.)
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import NOT_EQUAL, Code, call
from tile_core.printer.printer import Printer
from tile_core.printer.simt import snippet_call
from tile_core.printer.together import block_votes, require_all_lanes, thread_counter, whole_warp


def _of_all_lanes(name: str) -> ExprHandler:
    """A vote of a warp: the function of that name, given the predicate."""

    def handler(printer: Printer, node: Node) -> Code:
        predicate, mask = node.args
        require_all_lanes(printer, node, mask)
        code = call(name, printer.expr(predicate))
        return code if name == "asc_ballot" else NOT_EQUAL.join(code, Code("0"))

    return handler


_LANE = """
__simt_callee__ inline int tile_lane() {
  return int((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32u);
}
"""
_LANES = """
// How many lanes of this warp are active.
__simt_callee__ inline unsigned tile_lanes() { return unsigned(tile_popcount(asc_activemask())); }
"""
_SHUFFLE = """
// The value of a lane; lanes exchange 4 bytes at a time.
template <typename T>
__simt_callee__ inline T tile_shuffle(T value, int lane) {
  int32_t words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (int32_t& word : words) word = asc_shfl(word, lane);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
"""
_COUNT_THREADS = """
// A barrier whose value is the number of threads on which `predicate` holds.
__simt_callee__ inline unsigned tile_count_threads(bool predicate) {
  __ubuf__ unsigned counted[1];
  asc_syncthreads();
  if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) counted[0] = 0;
  asc_syncthreads();
  if (predicate) asc_atomic_add(counted, 1u);
  asc_syncthreads();
  return counted[0];
}
"""
# The lanes of a warp run together; the fence orders what they have written.
_SYNC_WARP = """
__simt_callee__ inline void tile_sync_warp() { asc_threadfence_block(); }
"""
SNIPPETS: Mapping[str, Snippet] = {
    "tile_lane": Snippet(_LANE),
    "tile_lanes": Snippet(_LANES, needs=("tile_popcount",)),
    "tile_shuffle": Snippet(_SHUFFLE),
    "tile_count_threads": thread_counter(_COUNT_THREADS),
    "tile_sync_warp": Snippet(
        _SYNC_WARP, emulated="inline void tile_sync_warp() { tile::meet_warp(tile::live_lanes(), true); }"
    ),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.any_sync": _of_all_lanes("asc_any"),
    "tile.all_sync": _of_all_lanes("asc_all"),
    "tile.ballot_sync": _of_all_lanes("asc_ballot"),
    "tile.activemask": lambda _printer, _node: call("asc_activemask"),
    **block_votes(),
    **whole_warp(snippet_call("tile_sync_warp")),
}
