"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl
from tile_core.plugins.threads import THREAD_OP_LOWERINGS


@hookimpl
def tile_register_backend() -> Backend:
    """The Ascend backend."""
    return Backend(
        name="ascend",
        target_kinds=("ascend",),
        dialect="tile_ascend.language",
        detect="tile_ascend.target:detect",
        parse_target="tile_ascend.target:parse_target",
        capabilities="tile_ascend.target:capabilities",
        compiler="tile_ascend.compiler:compile_kernel",
        pipeline_edits="tile_ascend.pipeline:edits",
        op_lowerings=THREAD_OP_LOWERINGS,
        runtime="tile_ascend.runtime:load",
    )
