"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl
from tile_core.plugins.threads import THREAD_OP_LOWERINGS


@hookimpl
def tile_register_backend() -> Backend:
    """The ROCm backend."""
    return Backend(
        name="rocm",
        target_kinds=("rocm", "hip"),
        dialect="tile_rocm.language",
        detect="tile_rocm.target:detect",
        parse_target="tile_rocm.target:parse_target",
        capabilities="tile_rocm.target:capabilities",
        compiler="tile_rocm.compiler:compile_kernel",
        pipeline_edits="tile_rocm.pipeline:edits",
        op_lowerings=THREAD_OP_LOWERINGS,
        runtime="tile_rocm.runtime:load",
    )
