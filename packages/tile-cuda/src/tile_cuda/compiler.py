"""From a tile program to CUDA C++ and, for emulated execution, to code that runs on the host."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile_core.device import split_launches
from tile_core.emulator.artifact import EmulatedLanguage, emulated_artifact
from tile_core.errors import CodeGenerationUnimplementedError
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cuda.printer import print_kernel
from tile_cuda.target import capabilities

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import Artifact, CompileRequest


def refusal(target: Any) -> CodeGenerationUnimplementedError:
    """The error for an attempt to run a kernel on `target` itself."""
    return CodeGenerationUnimplementedError(
        f"tile-cuda prints kernels for {target} and emulates them, but does not launch them on a GPU yet",
        remedy='run them on the host: execution="emulate", or target="cpu"',
    )


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the GPU that `request.target` names.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        CodeGenerationUnimplementedError: native execution was asked for.
    """
    lowered, report = lower(program, request, backend("cuda"))
    split = split_launches(lowered)
    printed = [print_kernel(kernel, request.target) for kernel in split.kernels]
    if request.execution != "emulate":
        raise refusal(request.target)
    include = Path(str(resources.files("tile_cuda.emulator"))) / "include"
    warp = capabilities(request.target).warp_size
    return emulated_artifact(split, printed, EmulatedLanguage("cuda_emulator.h", include, warp), report)
