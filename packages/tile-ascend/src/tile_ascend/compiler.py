"""From a tile program to Ascend C, and from there to a binary for the NPU or, when emulated, to code for the host."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tile_ascend.bisheng import compile_binary
from tile_ascend.cube import is_for_cube
from tile_ascend.printer import ASCEND_C
from tile_ascend.runtime import BINARY
from tile_ascend.target import capabilities
from tile_core.device import HOST_OBJECT, SplitProgram, host_object, split_launches
from tile_core.dtypes import DType
from tile_core.emulator import EmulatedLanguage, emulated_artifact
from tile_core.jit.artifact import Artifact
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer.printer import Parameter, PrintedFunction, source_of
from tile_core.printer.simt import print_kernel

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import CompileRequest
    from tile_core.targets import Target

DEVICE_NPU = 12
"""The DLPack number of devices that torch knows through an extension, such as torch_npu's."""
_POINTER_BYTES = 8


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the architecture that `request.target` names.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingCannError, DeviceCompilerError: as `compile_binary`.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    lowered, facts = lower(program, request, backend("ascend"))
    split = split_launches(lowered)
    if request.execution == "emulate":
        return emulated_artifact(split, _emulated(request.target), request, facts)
    functions = [print_kernel(kernel, ASCEND_C, request.target) for kernel in split.kernels]
    text, symbol = source_of(functions), str(lowered.attrs["global_symbol"])
    architecture = capabilities(request.target).fact("npu_architecture")
    binary = compile_binary(text, architecture, symbol, request.compile_flags)
    files = {BINARY: binary, HOST_OBJECT: host_object(split, DEVICE_NPU)}
    return Artifact(files, text, report={**facts, "symbol": symbol, "kernels": _described(split, functions)})


def _emulated(target: Target) -> EmulatedLanguage:
    headers = Path(str(resources.files("tile_ascend.emulator"))) / "include"
    return EmulatedLanguage(ASCEND_C, "ascend_emulator.h", headers, capabilities(target).warp_size)


def _described(program: SplitProgram, functions: list[PrintedFunction]) -> list[dict[str, object]]:
    """What `runtime.py` launches: names, units, and of each argument the number of its cell and its bytes."""
    return [
        {
            "name": function.name,
            "unit": "cube" if is_for_cube(kernel.func.body) else "vector",
            "arguments": [[parameter.position, _size(parameter)] for parameter in function.parameters],
        }
        for kernel, function in zip(program.kernels, functions, strict=True)
    ]


def _size(parameter: Parameter) -> int:
    return _POINTER_BYTES if parameter.kind == "buffer" else DType(parameter.dtype).itemsize
