"""From a tile program to HIP C++, and from there to a code object or, for emulated execution, to code for the host."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tile_core.device import HOST_OBJECT, SplitProgram, host_object, split_launches
from tile_core.emulator import EmulatedLanguage, emulated_artifact
from tile_core.jit.artifact import Artifact
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer.printer import PrintedFunction, source_of
from tile_core.printer.simt import print_kernel
from tile_rocm.hiprtc import compile_code_object
from tile_rocm.printer import HIP
from tile_rocm.runtime import CODE_OBJECT
from tile_rocm.target import capabilities

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import CompileRequest
    from tile_core.targets import Target

DEVICE_ROCM = 10
"""The DLPack number of ROCm devices."""


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the architecture that `request.target` names.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingRocmError, DeviceCompilerError: as `compile_code_object`.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    lowered, facts = lower(program, request, backend("rocm"))
    split = split_launches(lowered)
    if request.execution == "emulate":
        return emulated_artifact(split, _emulated(request.target), request, facts)
    functions = [print_kernel(kernel, HIP, request.target) for kernel in split.kernels]
    text, symbol = source_of(functions), str(lowered.attrs["global_symbol"])
    code = compile_code_object(text, request.target.option("arch"), symbol, request.compile_flags)
    files = {CODE_OBJECT: code, HOST_OBJECT: host_object(split, DEVICE_ROCM)}
    return Artifact(files, text, report={**facts, "symbol": symbol, "kernels": _described(split, functions)})


def _emulated(target: Target) -> EmulatedLanguage:
    headers = Path(str(resources.files("tile_rocm.emulator"))) / "include"
    return EmulatedLanguage(HIP, "hip_emulator.h", headers, capabilities(target).warp_size)


def _described(program: SplitProgram, functions: list[PrintedFunction]) -> list[dict[str, object]]:
    """What `runtime.py` launches: names, block sizes, shared bytes and the number of parameters."""
    return [
        {
            "name": function.name,
            "block": kernel.threads,
            "shared_bytes": kernel.shared_bytes,
            "arguments": [parameter.position for parameter in function.parameters],
        }
        for kernel, function in zip(program.kernels, functions, strict=True)
    ]
