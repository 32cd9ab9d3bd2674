"""How CUDA C++ spells barriers of a cluster and the overlap of launches: PTX, with its meaning on the host beside it.

PTX ISA, "barrier.cluster" and "griddepcontrol", both from sm_90 on. Without `.aligned` a warp may be divergent.
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import Code, call
from tile_core.printer.printer import Printer
from tile_core.printer.simt import snippet_call


def _instruction(name: str, ptx: str, meaning: str) -> Snippet:
    text = f"""
__device__ __forceinline__ void {name}() {{ asm volatile("{ptx}" ::: "memory"); }}
"""
    return Snippet(text, emulated=f"inline void {name}() {{ {meaning} }}")


def _arrive(printer: Printer, node: Node) -> Code:
    name = "tile_cluster_arrive_relaxed" if int(node.attrs["relaxed"]) else "tile_cluster_arrive"
    printer.snippet(name)
    return call(name)


SNIPPETS: Mapping[str, Snippet] = {
    "tile_cluster_arrive": _instruction(
        "tile_cluster_arrive", "barrier.cluster.arrive.release;", "tile::cluster_arrive(true);"
    ),
    "tile_cluster_arrive_relaxed": _instruction(
        "tile_cluster_arrive_relaxed", "barrier.cluster.arrive.relaxed;", "tile::cluster_arrive(false);"
    ),
    "tile_cluster_wait": _instruction("tile_cluster_wait", "barrier.cluster.wait.acquire;", "tile::cluster_wait();"),
    "tile_cluster_sync": Snippet(
        "__device__ __forceinline__ void tile_cluster_sync() {\n  tile_cluster_arrive();\n  tile_cluster_wait();\n}",
        needs=("tile_cluster_arrive", "tile_cluster_wait"),
    ),
    # Launches run one after the other in the emulator.
    "tile_launch_wait": _instruction("tile_launch_wait", "griddepcontrol.wait;", ""),
    "tile_launch_release": _instruction("tile_launch_release", "griddepcontrol.launch_dependents;", ""),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.thread.cluster_arrive": _arrive,
    "tile.thread.cluster_wait": snippet_call("tile_cluster_wait"),
    "tile.thread.cluster_sync": snippet_call("tile_cluster_sync"),
    "tile.thread.launch_wait": snippet_call("tile_launch_wait"),
    "tile.thread.launch_release": snippet_call("tile_launch_release"),
}
