"""What a backend whose blocks have threads puts into its manifest. Importing this imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

THREAD_OP_LOWERINGS: Mapping[str, str] = {
    "tile.print": "tile_core.passes.threads:print_tile",
    "tile.sync_threads": "tile_core.passes.threads:keep_barrier",
    "tile.sync_warp": "tile_core.passes.threads:keep_for_threads",
    "tile.named_barrier_arrive": "tile_core.passes.threads:keep_for_threads",
    "tile.gemm": "tile_core.ops.gemm:lower_for_threads",
    "tile.reducer_init": "tile_core.passes.threads:keep_reducer_init",
    "tile.reducer_finalize": "tile_core.passes.threads:keep_reducer_finalize",
}
"""For `Backend.op_lowerings`: ops that mean something else in a block of threads than in one sequential program."""
