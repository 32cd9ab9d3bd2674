"""From a tile program to CUDA C++, and from there to a cubin or, for emulated execution, to code for the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm import ir

from tile_core.device import HOST_OBJECT, DeviceKernel, host_object, split_launches
from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import visit
from tile_core.jit.artifact import Artifact
from tile_core.ops.threads import called
from tile_core.passes.lower import lower
from tile_core.passes.specialize_alignment import REPORTED
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_cuda import attributes, nvrtc
from tile_cuda.instructions.tensor_map import lower_tensor_maps
from tile_cuda.printer import CUDA
from tile_cuda.ptxas import Resources
from tile_cuda.ptxas import resources as resources_used
from tile_cuda.runtime import CUBIN
from tile_cuda.settings import settings
from tile_cuda.spare import COMPILERS, SOURCE
from tile_cuda.target import capabilities, compiled_architecture

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.device import SplitProgram
    from tile_core.jit.artifact import CompileRequest
    from tile_core.printer import PrintedFunction
    from tile_cuda.nvrtc import Compiled


_SHARED = re.compile(r"(extern\s+)?\b__shared__\b")
DEVICE_CUDA = 2
"""The DLPack number of CUDA devices."""
ALTERNATIVES = ("specialized_warps", REPORTED)
"""The facts of the report that count launches with alternatives, which share nothing and are compiled apart."""


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the GPU that `request.target` names; neither a GPU nor a driver is needed.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingNvrtcError, ToolchainArchitectureError, DeviceCompilerError: as `compile_source`.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    if request.execution == "native" and settings.compiler == "nvrtc":
        nvrtc.preload()
    lowered, report = lower(program, request, backend("cuda"))
    return compile_lowered(lowered, request, report)


def compile_lowered(lowered: tirx.PrimFunc, request: CompileRequest, report: Mapping[str, Any]) -> Artifact:
    """Compile what the passes left; `report` is what they told. Raises as `compile_kernel`."""
    split = lower_tensor_maps(split_launches(lowered))
    if request.execution == "emulate":
        return _emulated(split, request, report)
    printed = [print_kernel(kernel, CUDA, request.target) for kernel in split.kernels]
    source, symbol = source_of(printed), str(lowered.attrs["global_symbol"])
    kernels: list[dict[str, Any]] = [
        {
            "name": function.name,
            "threads": list(kernel.threads),
            "shared_bytes": kernel.shared_bytes,
            "parameters": len(kernel.func.params),
            "attributes": attributes.described(kernel),
        }
        for kernel, function in zip(split.kernels, printed, strict=True)
    ]
    are_apart = any(report.get(fact) for fact in ALTERNATIVES)
    units = {CUBIN.format(number): [function] for number, function in enumerate(printed)}
    spares = {
        CUBIN.format(number): SOURCE.format(number)
        for number, kernel in enumerate(split.kernels)
        if are_apart and kernel.is_spare and not settings.eager
    }
    sources = {later: source_of(units.pop(file)).encode() for file, later in spares.items()}
    if not are_apart:
        units = {CUBIN.format(0): printed}
    compiled, host = _compiled(list(units.values()), split, symbol, request)
    names = {name: lowered for unit in compiled for name, lowered in unit.names.items()}
    used = {name: found for unit in compiled for name, found in resources_used(unit.log).items()}
    for number, described in enumerate(kernels):
        file = CUBIN.format(number if are_apart else 0)
        described["file"] = spares.get(file, file)
        described["name"] = names.get(described["name"], described["name"])
        if file not in spares:
            described.update(used.get(described["name"], Resources()).described())
    cubins = {file: unit.cubin for file, unit in zip(units, compiled, strict=True)}
    return Artifact(
        files={**cubins, **sources, HOST_OBJECT: host},
        kernel_source=source,
        report={**report, "symbol": symbol, "kernels": kernels},
    )


def _emulated(split: SplitProgram, request: CompileRequest, report: Mapping[str, Any]) -> Artifact:
    """What the host's compiler makes of the kernels. Imported here, since a native compilation needs none of it."""
    from tile_core.emulator import EmulatedLanguage, emulated_artifact

    split = replace(split, kernels=tuple(map(_on_the_host, split.kernels)))
    include = Path(str(resources.files("tile_cuda.emulator"))) / "include"
    language = EmulatedLanguage(CUDA, "cuda_emulator.h", include, capabilities(request.target).warp_size)
    return emulated_artifact(split, language, request, report)


def _compiled(
    units: list[list[PrintedFunction]], split: SplitProgram, symbol: str, request: CompileRequest
) -> tuple[list[Compiled], bytes]:
    """The cubin of each unit and the host's object, made side by side: the compilers hold no lock of Python's."""
    arch = compiled_architecture(request.target)
    entries = [kernel.entry for kernel in split.kernels if kernel.entry]
    compile_source = COMPILERS[settings.compiler]
    with ThreadPoolExecutor(max_workers=len(units)) as pool:
        units_made = [
            pool.submit(compile_source, source_of(functions), arch, symbol, request.compile_flags, entries)
            for functions in units
        ]
        host = host_object(split, DEVICE_CUDA)
        return [unit.result() for unit in units_made], host


def _on_the_host(kernel: DeviceKernel) -> DeviceKernel:
    """A kernel as the emulator runs it: shared memory of the author's text is static, since blocks run in turn.

    Raises:
        UnsupportedOnTargetError: a cluster that uses what the emulator runs for one block at a time only.
    """
    if prod(kernel.cluster) > 1 or kernel.is_cooperative:
        _require_plain_cluster(kernel)
    return replace(kernel, prelude=_SHARED.sub(lambda found: found.group() if found[1] else "static", kernel.prelude))


def _require_plain_cluster(kernel: DeviceKernel) -> None:
    for call in visit.collect(kernel.func.body, ir.Call):
        name = called(call)
        if name.startswith("cuda.tcgen05"):
            raise UnsupportedOnTargetError(
                f"{name.removeprefix('cuda.')} in a cluster of blocks is not emulated",
                remedy="run the kernel on a GPU, or without cluster_dims",
            )
    if "__shared__" in kernel.prelude:
        raise UnsupportedOnTargetError(
            "shared memory in source text is not emulated in a cluster of blocks", remedy="run the kernel on a GPU"
        )
