"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl
from tile_core.plugins.threads import THREAD_OP_LOWERINGS


@hookimpl
def tile_register_backend() -> Backend:
    """The Metal backend."""
    return Backend(
        name="metal",
        target_kinds=("metal",),
        dialect="tile_metal.language",
        detect="tile_metal.target:detect",
        parse_target="tile_metal.target:parse_target",
        capabilities="tile_metal.target:capabilities",
        compiler="tile_metal.compiler:compile_kernel",
        pipeline_edits="tile_metal.pipeline:edits",
        op_lowerings=THREAD_OP_LOWERINGS,
        runtime="tile_metal.runtime:load",
    )
