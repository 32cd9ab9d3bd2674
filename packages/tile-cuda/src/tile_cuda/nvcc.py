"""Compile CUDA C++ to a cubin with the nvcc of an installed toolkit, for those who ask for it (`TILE_CUDA_COMPILER`).

nvcc reads the headers of the host's compiler, so `prelude` may include what NVRTC has no headers for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tile_core.device.refusal import refusal
from tile_cuda.errors import DeviceCompilerError, ToolchainArchitectureError
from tile_cuda.nvrtc import OPTIONS, Compiled
from tile_cuda.target import table

_UNKNOWN_ARCHITECTURE = "Unsupported gpu architecture"


def compile_source(
    source: str, arch: str, name: str, flags: Sequence[str] = (), kernels: Sequence[str] = ()
) -> Compiled:
    """A CUDA C++ source compiled for one architecture such as `sm_90`; `kernels` are those whose names are asked for.

    Raises:
        ToolchainArchitectureError: this nvcc does not know the architecture.
        DeviceCompilerError: there is no nvcc, it refused the source, or a kernel has no single name in the cubin.
    """
    with tempfile.TemporaryDirectory(prefix="tile-cuda-") as folder:
        path, cubin = Path(folder) / f"{name}.cu", Path(folder) / f"{name}.cubin"
        path.write_text(source, "utf-8")
        compiler = _nvcc()
        command = [compiler, "-cubin", f"-arch={arch}", *OPTIONS, *flags, "-o", str(cubin), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a path and options
        log = done.stdout + done.stderr
        if done.returncode and _UNKNOWN_ARCHITECTURE in log:
            raise _unknown(arch, compiler)
        if done.returncode:
            raise refusal(DeviceCompilerError, "nvcc", log.replace(f"{folder}{os.sep}", ""), source)
        content = cubin.read_bytes()
    return Compiled(content, log, {kernel: _lowered(kernel, content) for kernel in kernels})


def _nvcc() -> str:
    roots = [Path(root) for variable in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(variable))]
    candidates = [*(root / "bin" / "nvcc" for root in roots), Path("/usr/local/cuda/bin/nvcc")]
    found = next((str(path) for path in candidates if path.is_file()), None) or shutil.which("nvcc")
    if found is None:
        raise DeviceCompilerError(
            "nvcc was asked for and is not to be found: looked in CUDA_HOME, CUDA_PATH, /usr/local/cuda and PATH",
            remedy="install the CUDA toolkit, or compile with NVRTC: TILE_CUDA_COMPILER=nvrtc",
        )
    return found


def _unknown(arch: str, compiler: str) -> ToolchainArchitectureError:
    name = arch.rstrip("af")
    first = table().capabilities(name).fact("toolkit")
    return ToolchainArchitectureError(
        f"{compiler} does not compile for {name}",
        remedy=f"{name} needs CUDA {first} or later: install that toolkit, or compile with NVRTC of that version: "
        "TILE_CUDA_COMPILER=nvrtc",
    )


def _lowered(kernel: str, cubin: bytes) -> str:
    """The symbol of a kernel that is known by its name in C++."""
    mangled = rf"\.text\.(_Z{len(kernel)}{re.escape(kernel)}\w*|{re.escape(kernel)})\x00"
    found = {name.decode() for name in re.findall(mangled.encode(), cubin)}
    if len(found) != 1:
        raise DeviceCompilerError(
            f"nvcc made {len(found)} kernels called {kernel}",
            remedy='declare it extern "C", or compile with NVRTC: TILE_CUDA_COMPILER=nvrtc',
        )
    return found.pop()
