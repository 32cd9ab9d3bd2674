"""Compile CUDA C++ to a cubin with NVRTC, which comes as a wheel and needs no GPU."""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile_cuda import ptxas
from tile_cuda.errors import DeviceCompilerError, MissingNvrtcError, ToolchainArchitectureError
from tile_cuda.target import table

OPTIONS = ("--std=c++17", "--generate-line-info", ptxas.OPTION)


@dataclass(frozen=True)
class Compiled:
    """A cubin and what NVRTC and ptxas said."""

    cubin: bytes
    log: str
    names: Mapping[str, str]
    """What kernels of the source that were asked for by name are called in the cubin."""


def compile_cubin(source: str, arch: str, name: str, flags: Sequence[str] = ()) -> bytes:
    """The cubin of a CUDA C++ source for one architecture such as `sm_90`. Raises as `compile_source`."""
    return compile_source(source, arch, name, flags).cubin


def compile_source(
    source: str, arch: str, name: str, flags: Sequence[str] = (), kernels: Sequence[str] = ()
) -> Compiled:
    """A CUDA C++ source compiled for one architecture such as `sm_90`; `kernels` are those whose names are asked for.

    Raises:
        MissingNvrtcError: NVRTC's Python binding is not installed, or its library cannot be loaded.
        ToolchainArchitectureError: this NVRTC does not know the architecture.
        DeviceCompilerError: NVRTC refused the source; the source is in the exception's notes.
    """
    nvrtc = _nvrtc()
    require_architecture(arch, _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs()), _version(nvrtc))
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], []))
    options = [f"--gpu-architecture={arch}", *OPTIONS, *(f"-I{path}" for path in include_paths()), *flags]
    encoded = [option.encode() for option in options]
    try:
        for kernel in kernels:
            _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refusal(_log(nvrtc, program), source)
        size = _checked(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
        cubin = bytearray(size)
        _checked(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
        lowered = {one: _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, one.encode())).decode() for one in kernels}
        return Compiled(bytes(cubin), _log(nvrtc, program), lowered)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def require_architecture(arch: str, known: Sequence[int], version: str) -> None:
    """Refuse an architecture that a compiler of `version`, which knows the architectures `known`, does not have.

    Raises:
        ToolchainArchitectureError: it says which compiler would do.
    """
    number = int(arch.removeprefix("sm_").rstrip("af"))
    if number in known:
        return
    first = table().capabilities(f"sm_{number}").fact("toolkit")
    raise ToolchainArchitectureError(
        f"NVRTC {version} does not compile for sm_{number}; it compiles for {', '.join(f'sm_{one}' for one in known)}",
        remedy=f'sm_{number} needs NVRTC {first} or later: python -m pip install "nvidia-cuda-nvrtc>={first}"',
    )


def _version(nvrtc: Any) -> str:
    _status, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def _refusal(log: str, source: str) -> DeviceCompilerError:
    first = next((line for line in log.splitlines() if "error" in line), log.strip())
    error = DeviceCompilerError(
        f"NVRTC refused the printed kernel: {first}",
        remedy="log and source are in the notes of this error; check prelude= and compile_flags=",
    )
    error.add_note(log)
    error.add_note(source)
    return error


def _log(nvrtc: Any, program: Any) -> str:
    size = _checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
    text = bytearray(size)
    _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, text))
    return text.rstrip(b"\0").decode(errors="replace")


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DeviceCompilerError(
            f"NVRTC failed: {status.name}", remedy="check compile_flags= and the architecture of the target"
        )
    return values[0] if values else None


@functools.cache
def preload() -> None:
    """Load NVRTC, once, beside what the caller goes on with; what stands against it is told when it is used."""

    def load() -> None:
        with suppress(MissingNvrtcError):
            _nvrtc()

    threading.Thread(target=load, name="tile-cuda-nvrtc", daemon=True).start()


@functools.cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise MissingNvrtcError(
            f"compiling for CUDA needs NVRTC, and it is not to be had: {error}",
            remedy='install it: python -m pip install "tile-cuda[nvrtc]"',
        ) from error
    return nvrtc


@functools.cache
def include_paths() -> tuple[Path, ...]:
    """Where `cuda_fp16.h` lies: the wheels of CUDA's runtime, `CUDA_HOME`, the usual place of the toolkit."""
    candidates: list[Path] = []
    for package in ("nvidia.cu13", "nvidia.cuda_runtime"):
        spec = _find(package)
        if spec is not None:
            candidates += [Path(location) / "include" for location in spec.submodule_search_locations or ()]
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            candidates.append(Path(root) / "include")
    return tuple(path for path in candidates if (path / "cuda_fp16.h").is_file())[:1]


def _find(package: str) -> Any:
    try:
        return importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
