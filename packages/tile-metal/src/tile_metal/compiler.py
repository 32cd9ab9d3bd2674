"""From a tile program to Metal source, or, for emulated execution, to code for the host.

The source is compiled where it runs: Metal's compiler is part of macOS, and torch hands it the text (`runtime.py`). So
a kernel can be compiled for an Apple GPU on any machine, as far as to its source.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tvm.tirx import stmt as S

from tile_core.device import HOST_OBJECT, host_object, split_launches
from tile_core.emulator import EmulatedLanguage, emulated_artifact
from tile_core.errors import CodeGenerationUnimplementedError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.jit.artifact import Artifact
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_metal.exchanges import LANES
from tile_metal.printer import MSL
from tile_metal.stand_ins import DEVICE_METAL

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.device import SplitProgram
    from tile_core.jit.artifact import CompileRequest

BUILT_IN = ("tile_index(tile::block.index)", "tile_index(tile::block.self->index)", "tile::block.lane()")
"""What the emulator gives a kernel for the parameters that a device fills in."""


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Print `program` for the GPU family that `request.target` names.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        CodeGenerationUnimplementedError: the program has a workspace, and is not emulated.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    lowered, facts = lower(program, request, backend("metal"))
    split = split_launches(lowered)
    if request.execution == "emulate":
        headers = Path(str(resources.files("tile_metal.emulator"))) / "include"
        emulated = EmulatedLanguage(MSL, "metal_emulator.h", headers, LANES, BUILT_IN)
        return emulated_artifact(split, emulated, request, facts)
    _refuse_workspaces(split)
    printed = [print_kernel(kernel, MSL, request.target) for kernel in split.kernels]
    launched = [
        {
            "name": function.name,
            "block": kernel.threads,
            "arguments": [[parameter.kind, parameter.dtype, parameter.position] for parameter in function.parameters],
        }
        for kernel, function in zip(split.kernels, printed, strict=True)
    ]
    report = {**facts, "symbol": str(lowered.attrs["global_symbol"]), "kernels": launched}
    return Artifact({HOST_OBJECT: host_object(split, DEVICE_METAL)}, source_of(printed), report=report)


def _refuse_workspaces(program: SplitProgram) -> None:
    """Memory for all blocks comes from the host code, which has no buffers of Metal to give."""
    for workspace in visit.collect(program.host.body, S.AllocBuffer):
        raise CodeGenerationUnimplementedError(
            f"tile-metal cannot allocate the workspace {workspace.buffer.name} yet",
            remedy='pass a tensor for it as a parameter, or run on the host: execution="emulate"',
            span=from_tvm(workspace.span),
        )
