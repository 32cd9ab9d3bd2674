"""What this distribution hands to tile. Importing this module imports nothing heavy."""

from __future__ import annotations

from tile_core.plugins import Backend, hookimpl


@hookimpl
def tile_register_backend() -> Backend:
    """The CPU backend."""
    return Backend(
        name="cpu",
        target_kinds=("cpu", "llvm"),
        dialect="tile_cpu.language",
        detect="tile_cpu.target:detect",
        parse_target="tile_cpu.target:parse_target",
        capabilities="tile_cpu.target:capabilities",
        pipeline_edits="tile_cpu.pipeline:edits",
        op_lowerings={"tile.gemm": "tile_cpu.ops.gemm:lower", "tile.reduce": "tile_cpu.ops.reduce:lower"},
        compiler="tile_cpu.compiler:compile_program",
        runtime="tile_cpu.runtime:load",
    )
