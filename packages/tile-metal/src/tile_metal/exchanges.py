"""How Metal spells what the lanes of a SIMD-group or the threads of a threadgroup do together.

A SIMD-group of an Apple GPU has 32 lanes, and lanes that are active exchange: a mask of some lanes is refused, not
ignored. A lane knows its number only as a parameter of the kernel, `tile_lane`, so exchanges get it as their last
argument. ("Metal Shading Language Specification", SIMD-group functions.)
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import Code, call, cast
from tile_core.printer.printer import Printer
from tile_core.printer.snippets import COMBINATIONS, SHUFFLES
from tile_core.printer.together import block_votes, require_all_lanes, whole_warp

LANES = 32
COUNTED = "threadgroup atomic_uint tile_counted;"
"""What a kernel with votes of the threadgroup declares: functions have no threadgroup memory of their own."""
_LANE = Code("tile_lane")


def _exchange(name: str, *, masked: bool = False) -> ExprHandler:
    """A call of the snippet `name`, with the number of the lane behind its operands."""

    def handler(printer: Printer, node: Node) -> Code:
        arguments = list(node.args)
        if masked:
            require_all_lanes(printer, node, arguments.pop())
        printer.snippet(name)
        return call(name, *map(printer.expr, arguments), _LANE)

    return handler


def _vote(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        predicate, mask = node.args
        require_all_lanes(printer, node, mask)
        return call(name, printer.expr(predicate))

    return handler


def _lanes_of(printer: Printer, node: Node) -> Code:
    """The lanes on which a predicate holds, or those that are active, as bits."""
    if node.args:
        require_all_lanes(printer, node, node.args[1])
    vote = call("simd_ballot", printer.expr(node.args[0]) if node.args else Code("true"))
    return cast(printer.type_name(printer.dtype(node), node), call("simd_vote::vote_t", vote))


def _sync_warp(_printer: Printer, _node: Node) -> Code:
    return call("simdgroup_barrier", Code("mem_flags::mem_device | mem_flags::mem_threadgroup"))


_SHUFFLE = """
// The value of a lane. What simd_shuffle does not take goes as the bits of something that it does.
template <typename T>
inline T tile_shuffle(T value, int lane) { return simd_shuffle(value, ushort(lane)); }
inline bool tile_shuffle(bool value, int lane) { return simd_shuffle(uint(value), ushort(lane)) != 0; }
inline bfloat tile_shuffle(bfloat value, int lane) {
  return as_type<bfloat>(simd_shuffle(as_type<ushort>(value), ushort(lane)));
}
inline long tile_shuffle(long value, int lane) {
  return as_type<long>(simd_shuffle(as_type<uint2>(value), ushort(lane)));
}
inline ulong tile_shuffle(ulong value, int lane) {
  return as_type<ulong>(simd_shuffle(as_type<uint2>(value), ushort(lane)));
}
"""
_SHUFFLE_XOR = """
template <typename T>
inline T tile_shuffle_xor(T value, int distance, uint lane) { return tile_shuffle(value, int(lane) ^ distance); }
"""
_REDUCE = """
// Every lane gets the combination of all; the last SIMD-group of a threadgroup may be short.
template <typename Combine, typename T>
inline T tile_warp_reduce(T value, uint lane) {
  const uint lanes = popcount(uint(simd_vote::vote_t(simd_ballot(true))));
  const Combine combine = Combine();
  for (uint distance = 16; distance != 0; distance /= 2) {
    const T other = tile_shuffle(value, int(lane ^ distance));
    if ((lane ^ distance) < lanes) value = combine(value, other);
  }
  return lanes == 32 ? value : tile_shuffle(value, 0);
}
"""
_COUNT = """
// A barrier whose value is the number of threads of the threadgroup on which `predicate` holds.
inline uint tile_count_threads(bool predicate, threadgroup atomic_uint* counted, uint3 place, uint lane) {
  const uint votes = popcount(uint(simd_vote::vote_t(simd_ballot(predicate))));
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if ((place.x | place.y | place.z) == 0) atomic_store_explicit(counted, 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) atomic_fetch_add_explicit(counted, votes, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return atomic_load_explicit(counted, memory_order_relaxed);
}
"""


def _reduction(kind: str) -> Snippet:
    combined, needs = COMBINATIONS[kind]
    text = f"""
struct tile_combine_{kind} {{
  template <typename T>
  T operator()(T a, T b) const {{ return {combined}; }}
}};
template <typename T>
inline T tile_warp_reduce_{kind}(T value, uint lane) {{ return tile_warp_reduce<tile_combine_{kind}>(value, lane); }}
"""
    return Snippet(text, needs=(*needs, "tile_warp_reduce"))


def _shuffle(name: str) -> Snippet:
    source, what = SHUFFLES[name]
    text = f"""
// {what}
template <typename T>
inline T {name}(T value, int by, int width, int lane) {{ return tile_shuffle(value, {source}); }}
"""
    return Snippet(text, needs=("tile_shuffle",))


SNIPPETS: Mapping[str, Snippet] = {
    "tile_shuffle": Snippet(_SHUFFLE),
    "tile_shuffle_xor": Snippet(_SHUFFLE_XOR, needs=("tile_shuffle",)),
    "tile_warp_reduce": Snippet(_REDUCE, needs=("tile_shuffle",)),
    **{name: _shuffle(name) for name in SHUFFLES},
    **{f"tile_warp_reduce_{kind}": _reduction(kind) for kind in COMBINATIONS},
    "tile_count_threads": Snippet(
        _COUNT,
        emulated="inline uint tile_count_threads(bool predicate, atomic_uint*, uint3, uint) {\n"
        "  return tile::count_threads(predicate);\n}",
    ),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.shuffle_xor": _exchange("tile_shuffle_xor"),
    **{f"tile.shfl_{kind}": _exchange(f"tile_shfl_{kind}", masked=True) for kind in ("sync", "xor", "up", "down")},
    **{f"tile.warp_reduce_{kind}": _exchange(f"tile_warp_reduce_{kind}") for kind in COMBINATIONS},
    "tile.any_sync": _vote("simd_any"),
    "tile.all_sync": _vote("simd_all"),
    "tile.ballot_sync": _lanes_of,
    "tile.activemask": _lanes_of,
    **block_votes(Code("&tile_counted"), Code("tile_thread"), _LANE),
    **whole_warp(_sync_warp),
}
