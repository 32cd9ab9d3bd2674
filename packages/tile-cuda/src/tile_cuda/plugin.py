"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl
from tile_core.plugins.threads import THREAD_OP_LOWERINGS

CLUSTER_OP_LOWERINGS = {
    f"tile.{name}": "tile_core.passes.threads:keep_for_threads"
    for name in ("cluster_arrive", "cluster_wait", "cluster_sync", "launch_wait", "launch_release", "sync_grid")
}
"""Each is an instruction of every thread."""


@hookimpl
def tile_register_backend() -> Backend:
    """The CUDA backend."""
    return Backend(
        name="cuda",
        target_kinds=("cuda",),
        dialect="tile_cuda.language",
        detect="tile_cuda.target:detect",
        parse_target="tile_cuda.target:parse_target",
        capabilities="tile_cuda.target:capabilities",
        compiler="tile_cuda.compiler:compile_kernel",
        pipeline_edits="tile_cuda.pipeline:edits",
        op_lowerings={
            **THREAD_OP_LOWERINGS,
            **CLUSTER_OP_LOWERINGS,
            "tile.gemm_scaled": "tile_cuda.matrix.block_scaled:made_by_instructions",
        },
        runtime="tile_cuda.runtime:load",
        settings="tile_cuda.settings:settings",
    )
