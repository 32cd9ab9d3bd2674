"""From a tile program to CUDA C++, and from there to a cubin or, for emulated execution, to code for the host."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile_core.device import HOST_OBJECT, host_object, split_launches
from tile_core.emulator import EmulatedLanguage, emulated_artifact
from tile_core.jit.artifact import Artifact
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_cuda.instructions.tensor_map import lower_tensor_maps
from tile_cuda.nvrtc import compile_cubin
from tile_cuda.printer import CUDA
from tile_cuda.runtime import CUBIN
from tile_cuda.target import capabilities, compiled_architecture

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.device import SplitProgram
    from tile_core.jit.artifact import CompileRequest
    from tile_core.printer import PrintedFunction


DEVICE_CUDA = 2
"""The DLPack number of CUDA devices."""
ALTERNATIVES = "specialized_warps"
"""The fact of the report that says that launches have alternatives, which share nothing and are compiled apart."""


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the GPU that `request.target` names; neither a GPU nor a driver is needed.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingNvrtcError, DeviceCompilerError: as `compile_cubin`.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    lowered, report = lower(program, request, backend("cuda"))
    return compile_lowered(lowered, request, report)


def compile_lowered(lowered: tirx.PrimFunc, request: CompileRequest, report: Mapping[str, Any]) -> Artifact:
    """Compile what the passes left; `report` is what they told. Raises as `compile_kernel`."""
    split = lower_tensor_maps(split_launches(lowered))
    if request.execution == "emulate":
        include = Path(str(resources.files("tile_cuda.emulator"))) / "include"
        warp = capabilities(request.target).warp_size
        return emulated_artifact(split, EmulatedLanguage(CUDA, "cuda_emulator.h", include, warp), request, report)
    printed = [print_kernel(kernel, CUDA, request.target) for kernel in split.kernels]
    source, symbol = source_of(printed), str(lowered.attrs["global_symbol"])
    kernels = [
        {
            "name": function.name,
            "threads": list(kernel.threads),
            "shared_bytes": kernel.shared_bytes,
            "parameters": len(kernel.func.params),
        }
        for kernel, function in zip(split.kernels, printed, strict=True)
    ]
    units = [[function] for function in printed] if report.get(ALTERNATIVES) else [printed]
    cubins, host = _compiled(units, split, symbol, request)
    for described, number in zip(kernels, range(len(kernels)), strict=True):
        described["file"] = CUBIN.format(number if report.get(ALTERNATIVES) else 0)
    return Artifact(
        files={**{CUBIN.format(number): cubin for number, cubin in enumerate(cubins)}, HOST_OBJECT: host},
        kernel_source=source,
        report={**report, "symbol": symbol, "kernels": kernels},
    )


def _compiled(
    units: list[list[PrintedFunction]], split: SplitProgram, symbol: str, request: CompileRequest
) -> tuple[list[bytes], bytes]:
    """The cubin of each unit and the host's object, made side by side: the compilers hold no lock of Python's."""
    arch = compiled_architecture(request.target)
    with ThreadPoolExecutor(max_workers=len(units)) as pool:
        cubins = [
            pool.submit(compile_cubin, source_of(functions), arch, symbol, request.compile_flags) for functions in units
        ]
        host = host_object(split, DEVICE_CUDA)
        return [cubin.result() for cubin in cubins], host
