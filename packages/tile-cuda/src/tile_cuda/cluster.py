"""How CUDA C++ spells barriers of a cluster and of the grid, and the overlap of launches, with the meaning on the host.

PTX ISA, "barrier.cluster" and "griddepcontrol", both from sm_90 on. Without `.aligned` a warp may be divergent. The
barrier of the grid counts in the word that the driver gives each cooperative launch, whose address lies in two
registers, as `cooperative_groups/details/driver_abi.h` of the toolkit says.
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.ops.threads import GRID_BARRIER
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
    "tile_grid_sync": Snippet(
        r"""
// All blocks of the grid wait. The counter's highest bit changes when all have arrived: the first block sees to it.
__device__ __forceinline__ void tile_grid_sync() {
  __syncthreads();
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    unsigned* counter;
    asm("{ .reg .b32 high, low; mov.b32 high, %%envreg1; mov.b32 low, %%envreg2; mov.b64 %0, {low, high}; }"
        : "=l"(counter));
    ++counter;
    const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
    const unsigned step = blockIdx.x + blockIdx.y + blockIdx.z == 0 ? 0x80000000u - others : 1u;
    unsigned before, now;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(step) : "memory");
    do {
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while ((before ^ now) >> 31 == 0);
  }
  __syncthreads();
}
""",
        emulated="inline void tile_grid_sync() { tile::cluster_arrive(true); tile::cluster_wait(); }",
    ),
    # Launches run one after the other in the emulator.
    "tile_launch_wait": _instruction("tile_launch_wait", "griddepcontrol.wait;", ""),
    "tile_launch_release": _instruction("tile_launch_release", "griddepcontrol.launch_dependents;", ""),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.thread.cluster_arrive": _arrive,
    "tile.thread.cluster_wait": snippet_call("tile_cluster_wait"),
    "tile.thread.cluster_sync": snippet_call("tile_cluster_sync"),
    GRID_BARRIER: snippet_call("tile_grid_sync"),
    "tile.thread.launch_wait": snippet_call("tile_launch_wait"),
    "tile.thread.launch_release": snippet_call("tile_launch_release"),
}
