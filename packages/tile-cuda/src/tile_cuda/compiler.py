"""From a tile program to CUDA C++, and from there to a cubin or, for emulated execution, to code for the host."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
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
    are_apart = any(report.get(fact) for fact in ALTERNATIVES)
    spares = {
        CUBIN.format(number): SOURCE.format(number)
        for number, kernel in enumerate(split.kernels)
        if are_apart and kernel.is_spare and not settings.eager
    }
    symbol = str(lowered.attrs["global_symbol"])
    printed, units, host = _compiled(split, symbol, request, are_apart=are_apart, later=spares)
    names = {name: mangled for unit in units.values() for name, mangled in unit.names.items()}
    used = {name: found for unit in units.values() for name, found in resources_used(unit.log).items()}
    kernels: list[dict[str, Any]] = []
    sources: dict[str, bytes] = {}
    for number, (kernel, function) in enumerate(zip(split.kernels, printed, strict=True)):
        file, name = CUBIN.format(number if are_apart else 0), names.get(function.name, function.name)
        if file in spares:
            sources[spares[file]] = source_of([function]).encode()
        found = {} if file in spares else used.get(name, Resources()).described()
        kernels.append(
            {
                "name": name,
                "threads": list(kernel.threads),
                "shared_bytes": kernel.shared_bytes,
                "parameters": len(kernel.func.params),
                "attributes": attributes.described(kernel),
                "file": spares.get(file, file),
                **found,
            }
        )
    cubins = {file: unit.cubin for file, unit in units.items()}
    return Artifact(
        files={**cubins, **sources, HOST_OBJECT: host},
        kernel_source=source_of(printed),
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
    split: SplitProgram, symbol: str, request: CompileRequest, *, are_apart: bool, later: Collection[str]
) -> tuple[list[PrintedFunction], dict[str, Compiled], bytes]:
    """The printed kernels, the cubins by file but those of `later`, and the host's object.

    The vendor's compiler holds no lock of Python's: while it runs, what it does not need is printed and built.
    """
    arch = compiled_architecture(request.target)
    entries = [kernel.entry for kernel in split.kernels if kernel.entry]
    compile_source = COMPILERS[settings.compiler]
    files = [CUBIN.format(number if are_apart else 0) for number in range(len(split.kernels))]
    printed = {
        number: print_kernel(split.kernels[number], CUDA, request.target)
        for number, file in enumerate(files)
        if file not in later
    }
    units: dict[str, list[PrintedFunction]] = {}
    for number, function in printed.items():
        units.setdefault(files[number], []).append(function)
    with ThreadPoolExecutor(max_workers=max(1, len(units))) as pool:
        under_way = {
            file: pool.submit(compile_source, source_of(functions), arch, symbol, request.compile_flags, entries)
            for file, functions in units.items()
        }
        every = [
            printed.get(number) or print_kernel(kernel, CUDA, request.target)
            for number, kernel in enumerate(split.kernels)
        ]
        host = host_object(split, DEVICE_CUDA)
        return every, {file: unit.result() for file, unit in under_way.items()}, host


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
