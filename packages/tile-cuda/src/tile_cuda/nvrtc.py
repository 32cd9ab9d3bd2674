"""Compile CUDA C++ to a cubin with NVRTC, which comes as a wheel and needs no GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile_core.device.refusal import refusal
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
        MissingNvrtcError: NVRTC's library cannot be loaded.
        ToolchainArchitectureError: this NVRTC does not know the architecture.
        DeviceCompilerError: NVRTC refused the source; the source is in the exception's notes.
    """
    nvrtc = _nvrtc()
    require_architecture(arch, _architectures(nvrtc), _version(nvrtc))
    options = [f"--gpu-architecture={arch}", *OPTIONS, *(f"-I{path}" for path in include_paths()), *flags]
    with _program(nvrtc, source, name) as program:
        for kernel in kernels:
            _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
        status = nvrtc.nvrtcCompileProgram(program, len(options), _texts(options))
        log = _read(nvrtc, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status:
            raise refusal(DeviceCompilerError, "NVRTC", log, source)
        lowered = {kernel: _lowered_name(nvrtc, program, kernel) for kernel in kernels}
        return Compiled(_read(nvrtc, "CUBIN", program), log, lowered)


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


def _version(nvrtc: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def _architectures(nvrtc: ctypes.CDLL) -> Sequence[int]:
    """The numbers of the architectures that NVRTC compiles for."""
    count = ctypes.c_int()
    _check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(nvrtc, nvrtc.nvrtcGetSupportedArchs(numbers))
    return list(numbers)


@contextmanager
def _program(nvrtc: ctypes.CDLL, source: str, name: str) -> Iterator[ctypes.c_void_p]:
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None)
    _check(nvrtc, created)
    try:
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _texts(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _read(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    """What NVRTC holds of a program: its `ProgramLog`, its `CUBIN`."""
    size = ctypes.c_size_t()
    _check(nvrtc, nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(nvrtc, nvrtc[f"nvrtcGet{what}"](program, content))
    return content.raw


def _lowered_name(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, kernel: str) -> str:
    lowered = ctypes.c_char_p()
    _check(nvrtc, nvrtc.nvrtcGetLoweredName(program, kernel.encode(), ctypes.byref(lowered)))
    return (lowered.value or b"").decode()


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        raise DeviceCompilerError(
            f"NVRTC failed: {_text(nvrtc, status)}", remedy="check compile_flags= and the architecture of the target"
        )


def _text(nvrtc: ctypes.CDLL, status: int) -> str:
    describe = nvrtc.nvrtcGetErrorString
    describe.restype = ctypes.c_char_p
    return str((describe(status) or b"unknown").decode())


@functools.cache
def preload() -> None:
    """Load NVRTC, once, beside what the caller goes on with; what stands against it is told when it is used."""

    def load() -> None:
        with suppress(MissingNvrtcError):
            _nvrtc()

    threading.Thread(target=load, name="tile-cuda-nvrtc", daemon=True).start()


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    """The library; Python's binding of it takes as long to import as half of the compiler."""
    failed: list[OSError] = []
    for library in _libraries():
        try:
            return ctypes.CDLL(library)
        except OSError as error:
            failed.append(error)
    raise MissingNvrtcError(
        f"compiling for CUDA needs NVRTC, and it is not to be had: {failed[0]}",
        remedy='install it: python -m pip install "tile-cuda[nvrtc]"',
    ) from failed[0]


def _libraries() -> Iterator[str]:
    """Where NVRTC may lie: its wheels, `CUDA_HOME`, the usual place of the toolkit, where the loader looks."""
    for root in _roots("nvidia.cu13", "nvidia.cuda_nvrtc"):
        for folder in ("lib", "lib64"):
            yield from sorted(map(str, (root / folder).glob("libnvrtc.so.*")), key=len)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


@functools.cache
def include_paths() -> tuple[Path, ...]:
    """Where `cuda_fp16.h` lies: the wheels of CUDA's runtime, `CUDA_HOME`, the usual place of the toolkit."""
    found = (root / "include" for root in _roots("nvidia.cu13", "nvidia.cuda_runtime"))
    return tuple(path for path in found if (path / "cuda_fp16.h").is_file())[:1]


def _roots(*packages: str) -> Iterator[Path]:
    """The roots of toolkits, or of parts of one: of wheels that are installed, then where toolkits are."""
    for package in packages:
        spec = _find(package)
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ())
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if folder:
            yield Path(folder)


def _find(package: str) -> Any:
    try:
        return importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
