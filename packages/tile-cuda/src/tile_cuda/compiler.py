"""From a tile program to CUDA C++, and from there to a cubin or, for emulated execution, to code for the host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from tile_core.passes.lower import Lowered, lower_spares_last
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_cuda import attributes, nvrtc
from tile_cuda.instructions.tensor_map import lower_tensor_maps
from tile_cuda.printer import CUDA
from tile_cuda.ptxas import Resources
from tile_cuda.ptxas import resources as resources_used
from tile_cuda.runtime import CUBIN, prepare
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


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the GPU that `request.target` names; neither a GPU nor a driver is needed.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingNvrtcError, ToolchainArchitectureError, DeviceCompilerError: as `compile_source`.
        MissingCompilerError, EmulatorCompilerError: for emulated execution, as `emulated_artifact`.
    """
    if request.execution == "native" and settings.compiler == "nvrtc":
        nvrtc.preload()
    return _compiled(lower_spares_last(program, request, backend("cuda")), request)


def compile_lowered(lowered: tirx.PrimFunc, request: CompileRequest, report: Mapping[str, Any]) -> Artifact:
    """Compile what the passes left; `report` is what they told. Raises as `compile_kernel`."""
    return _compiled(Lowered(lowered, has_spares=False, whole=lambda: (lowered, report)), request)


def _compiled(lowered: Lowered, request: CompileRequest) -> Artifact:
    """The artifact of a program.

    The vendor's compiler holds no lock of Python's: while it runs, what it does not need is lowered, printed, built and
    made ready.
    """
    if request.execution == "emulate":
        program, report = lowered.whole()
        return _emulated(_split(program), request, report)
    with ThreadPoolExecutor() as pool:
        units = _Units(lowered, request, pool)
        first = _split(lowered.main).kernels
        units.add(first)
        program, report = lowered.whole()
        split = _split(program)
        units.add(split.kernels[len(first) :])
        host = host_object(split, DEVICE_CUDA)
        prepare()
        return units.artifact(split, report, host)


def _split(program: tirx.PrimFunc) -> SplitProgram:
    return lower_tensor_maps(split_launches(program))


class _Units:
    """The kernels of a program in the units they are compiled in.

    They are one unit. But launches with alternatives share nothing, and each of their kernels is a unit of its own, of
    which those of spares wait for the call that needs them.
    """

    def __init__(self, lowered: Lowered, request: CompileRequest, pool: ThreadPoolExecutor) -> None:
        self._are_apart, self._request, self._pool = lowered.has_spares, request, pool
        self._symbol = str(lowered.main.attrs["global_symbol"])
        self._printed: list[PrintedFunction] = []
        self._files: list[str] = []
        self._sources: dict[str, bytes] = {}
        self._under_way: dict[str, Future[Compiled]] = {}

    def add(self, kernels: Sequence[DeviceKernel]) -> None:
        """Print the next kernels of the program, and begin to compile them."""
        units: dict[str, list[tuple[DeviceKernel, PrintedFunction]]] = {}
        for number, kernel in enumerate(kernels, start=len(self._printed)):
            function = print_kernel(kernel, CUDA, self._request.target)
            waits = kernel.is_spare and self._are_apart and not settings.eager
            file = SOURCE.format(number) if waits else CUBIN.format(number if self._are_apart else 0)
            self._printed.append(function)
            self._files.append(file)
            if waits:
                self._sources[file] = source_of([function]).encode()
            else:
                units.setdefault(file, []).append((kernel, function))
        for file, members in units.items():
            self._under_way[file] = self._pool.submit(
                COMPILERS[settings.compiler],
                source_of([function for _kernel, function in members]),
                compiled_architecture(self._request.target),
                self._symbol,
                self._request.compile_flags,
                [kernel.entry for kernel, _function in members if kernel.entry],
            )

    def artifact(self, split: SplitProgram, report: Mapping[str, Any], host: bytes) -> Artifact:
        """The artifact, when all that is under way is done. `split` is the whole program."""
        units = {file: unit.result() for file, unit in self._under_way.items()}
        names = {name: mangled for unit in units.values() for name, mangled in unit.names.items()}
        used = {name: found.described() for unit in units.values() for name, found in resources_used(unit.log).items()}
        kernels: list[dict[str, Any]] = []
        for kernel, function, file in zip(split.kernels, self._printed, self._files, strict=True):
            name = names.get(function.name, function.name)
            found = {} if file in self._sources else used.get(name, Resources().described())
            kernels.append(
                {
                    "name": name,
                    "threads": list(kernel.threads),
                    "shared_bytes": kernel.shared_bytes,
                    "parameters": len(kernel.func.params),
                    "attributes": attributes.described(kernel),
                    "file": file,
                    **found,
                }
            )
        cubins = {file: unit.cubin for file, unit in units.items()}
        return Artifact(
            files={**cubins, **self._sources, HOST_OBJECT: host},
            kernel_source=source_of(self._printed),
            report={**report, "symbol": self._symbol, "kernels": kernels},
        )


def _emulated(split: SplitProgram, request: CompileRequest, report: Mapping[str, Any]) -> Artifact:
    """What the host's compiler makes of the kernels. Imported here, since a native compilation needs none of it."""
    from tile_core.emulator import EmulatedLanguage, emulated_artifact

    split = replace(split, kernels=tuple(map(_on_the_host, split.kernels)))
    include = Path(str(resources.files("tile_cuda.emulator"))) / "include"
    language = EmulatedLanguage(CUDA, "cuda_emulator.h", include, capabilities(request.target).warp_size)
    return emulated_artifact(split, language, request, report)


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
