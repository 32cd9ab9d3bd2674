"""The interpreter as a backend: `target="interpret"`. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl


@hookimpl
def tile_register_backend() -> Backend:
    """The interpreter's manifest."""
    return Backend(
        name="interpret",
        target_kinds=("interpret",),
        dialect="tile_core.language",
        detect="tile_core.interpreter.target:detect",
        parse_target="tile_core.interpreter.target:parse_target",
        capabilities="tile_core.interpreter.target:capabilities",
        compiler="tile_core.interpreter.compiler:compile_program",
        runtime="tile_core.interpreter.runtime:load",
        pass_configs=(
            "interpret.check_races",
            "interpret.check_uninitialized",
            "interpret.max_steps",
            "interpret.reversed_order",
        ),
    )
