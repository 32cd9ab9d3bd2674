"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl


@hookimpl
def tile_register_backend() -> Backend:
    """The toy backend."""
    return Backend(
        name="toy",
        target_kinds=("toy",),
        dialect="tile_toy.language",
        detect="tile_toy.target:detect",
        parse_target="tile_toy.target:parse_target",
        capabilities="tile_toy.target:capabilities",
        pipeline_edits="tile_toy.pipeline:edits",
        printer="tile_toy.printer:print_kernel",
        compiler="tile_toy.compiler:compile_kernel",
        runtime="tile_toy.runtime:load",
        settings="tile_toy.settings:settings",
    )
