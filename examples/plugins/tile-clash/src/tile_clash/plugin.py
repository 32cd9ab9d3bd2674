"""A well-formed manifest whose name is already taken."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl


@hookimpl
def tile_register_backend() -> Backend:
    """A backend called toy, like the one of tile-toy."""
    return Backend(
        name="toy",
        target_kinds=("toy",),
        dialect="tile_core.language",
        detect="tile_clash.parts:detect",
        parse_target="tile_clash.parts:parse_target",
        capabilities="tile_clash.parts:capabilities",
        compiler="tile_clash.parts:compile_kernel",
        runtime="tile_clash.parts:load",
    )
