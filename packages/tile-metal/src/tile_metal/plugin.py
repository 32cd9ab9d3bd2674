"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl


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
        runtime="tile_metal.runtime:load",
    )
