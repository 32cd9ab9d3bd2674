"""How CUDA C++ spells what the threads of a warp or a block do together.

The names are CUDA's own (CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions", "Warp Match
Functions", "Synchronization Functions"), which the emulator's header defines, so that a kernel reads as one would
write it. Instructions that CUDA has no function for are snippets with their meaning on the host beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.ir import regions
from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import NOT_EQUAL, Code, call, cast
from tile_core.printer.printer import Printer
from tile_core.printer.simt import snippet_call

_WARP = 32
_NARROW_FLOATS = frozenset({"float16", "bfloat16"})


def lane_mask(printer: Printer, mask: Node) -> Code:
    """A mask of lanes, in hexadecimal where it is a constant."""
    value = regions.constant(mask)
    return printer.expr(mask) if value is None else Code(f"{value % (1 << 32):#x}u")


def _shuffle(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        value, lane, width, mask = node.args
        arguments = [lane_mask(printer, mask), printer.expr(value), printer.expr(lane)]
        if regions.constant(width) != _WARP:
            arguments.append(printer.expr(width))
        return printer.narrowed(call(name, *arguments), node)

    return handler


def _shuffle_xor(printer: Printer, node: Node) -> Code:
    """An exchange of all threads of a block: of whole warps, or with a short one at the end."""
    if int(node.attrs["threads"]) % _WARP:
        return snippet_call("tile_shuffle_xor")(printer, node)
    return call("__shfl_xor_sync", Code("0xffffffffu"), *map(printer.expr, node.args))


def _vote(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        predicate, mask = node.args
        return NOT_EQUAL.join(call(name, lane_mask(printer, mask), printer.expr(predicate)), Code("0"))

    return handler


def _ballot(printer: Printer, node: Node) -> Code:
    predicate, mask = node.args
    votes = call("__ballot_sync", lane_mask(printer, mask), printer.expr(predicate))
    return cast(printer.type_name(printer.dtype(node)), votes)


def _active_mask(printer: Printer, node: Node) -> Code:
    return cast(printer.type_name(printer.dtype(node)), call("__activemask"))


def _block_vote(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Node) -> Code:
        votes = call(name, printer.expr(node.args[0]))
        return votes if printer.dtype(node) == "int32" else NOT_EQUAL.join(votes, Code("0"))

    return handler


def _match(name: str) -> ExprHandler:
    """Lanes match where their bits do; the instruction takes 4 or 8 bytes."""

    def handler(printer: Printer, node: Node) -> Code:
        value, mask = node.args
        code = printer.expr(value)
        if printer.dtype(value) in _NARROW_FLOATS:
            printer.snippet("tile_reinterpret")
            code = cast("unsigned", call("tile_reinterpret<unsigned short>", code))
        elif printer.dtype(value) == "bool":
            code = cast("int", code)
        if name in SNIPPETS:
            printer.snippet(name)
        return call(name, lane_mask(printer, mask), code)

    return handler


def _sync_warp(printer: Printer, node: Node) -> Code:
    mask = None if node.attrs is None else node.attrs.get("mask")
    return call("__syncwarp", *([] if mask is None else [Code(f"{int(mask) % (1 << 32):#x}u")]))


def _named_barrier(name: str) -> ExprHandler:
    """A barrier by its number; all threads of the block where no count is given."""

    def handler(printer: Printer, node: Node) -> Code:
        number, count = int(node.attrs["barrier_id"]), node.attrs.get("arrive_count")
        printer.snippet(name)
        return call(name, Code(str(number)), Code("tile_threads()" if count is None else str(int(count))))

    return handler


_LANES = """
// The lane of this thread, and how many the warp has: the last warp of a block may be short.
__device__ __forceinline__ unsigned tile_threads() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ __forceinline__ unsigned tile_thread() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ unsigned tile_lane() { return tile_thread() % 32u; }
__device__ __forceinline__ unsigned tile_lanes() {
  const unsigned left = tile_threads() - tile_thread() / 32u * 32u;
  return left < 32u ? left : 32u;
}
__device__ __forceinline__ unsigned tile_all_lanes() { return 0xffffffffu >> (32u - tile_lanes()); }
"""
_SHUFFLE = """
template <typename T>
__device__ __forceinline__ T tile_shuffle(T value, int lane) { return __shfl_sync(tile_all_lanes(), value, lane); }
"""
_SHUFFLE_XOR = """
template <typename T>
__device__ __forceinline__ T tile_shuffle_xor(T value, int distance) {
  return __shfl_xor_sync(tile_all_lanes(), value, distance);
}
"""
_MATCH_ALL = """
// The lanes that take part where all hold the same bits, else none.
template <typename T>
__device__ __forceinline__ unsigned tile_match_all(unsigned mask, T value) {
  int same;
  return __match_all_sync(mask, value, &same);
}
"""


def _barrier_instruction(name: str, mnemonic: str, meaning: str) -> Snippet:
    # PTX ISA, "bar, barrier": barrier 0 to 15, and the number of threads, a multiple of the warp's size.
    text = f"""
__device__ __forceinline__ void {name}(unsigned number, unsigned count) {{
  asm volatile("{mnemonic} %0, %1;" ::"r"(number), "r"(count) : "memory");
}}
"""
    emulated = f"inline void {name}(unsigned number, unsigned count) {{ {meaning} }}"
    return Snippet(text, needs=("tile_lane",), emulated=emulated)


SNIPPETS: Mapping[str, Snippet] = {
    "tile_lane": Snippet(_LANES),
    "tile_lanes": Snippet("", needs=("tile_lane",)),
    "tile_shuffle": Snippet(_SHUFFLE, needs=("tile_lane",)),
    "tile_shuffle_xor": Snippet(_SHUFFLE_XOR, needs=("tile_lane",)),
    "tile_match_all": Snippet(_MATCH_ALL),
    "tile_barrier_sync": _barrier_instruction("tile_barrier_sync", "bar.sync", "tile::named_barrier(number, count);"),
    "tile_barrier_arrive": _barrier_instruction(
        "tile_barrier_arrive", "bar.arrive", "tile::named_barrier(number, count, false);"
    ),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.shuffle_xor": _shuffle_xor,
    "tile.shfl_sync": _shuffle("__shfl_sync"),
    "tile.shfl_xor": _shuffle("__shfl_xor_sync"),
    "tile.shfl_up": _shuffle("__shfl_up_sync"),
    "tile.shfl_down": _shuffle("__shfl_down_sync"),
    "tile.any_sync": _vote("__any_sync"),
    "tile.all_sync": _vote("__all_sync"),
    "tile.ballot_sync": _ballot,
    "tile.activemask": _active_mask,
    "tile.match_any_sync": _match("__match_any_sync"),
    "tile.match_all_sync": _match("tile_match_all"),
    "tile.syncthreads_and": _block_vote("__syncthreads_and"),
    "tile.syncthreads_or": _block_vote("__syncthreads_or"),
    "tile.syncthreads_count": _block_vote("__syncthreads_count"),
    "tile.thread.sync_warp": _sync_warp,
    "tile.thread.named_barrier": _named_barrier("tile_barrier_sync"),
    "tile.thread.named_barrier_arrive": _named_barrier("tile_barrier_arrive"),
}
