"""Errors of this backend."""

from __future__ import annotations

from tile_core.errors import TileError


class MissingNvrtcError(TileError, RuntimeError):
    """NVRTC, the compiler for CUDA C++, is not installed.

    `python -m pip install "tile-cuda[nvrtc]"` installs it with NVIDIA's wheels; no GPU is needed to compile.
    """

    code = "TILE-CUDA-E01"
    kind = "environment"


class DeviceCompilerError(TileError, RuntimeError):
    """NVRTC or nvcc refused a printed kernel: a mistake of this backend, a flag it does not know, or text of `prelude`.

    The message holds the first complaint; log and source are in the exception's notes.
    """

    code = "TILE-CUDA-E02"


class MissingDriverError(TileError, RuntimeError):
    """The NVIDIA driver is missing or does not start, so nothing can run on a GPU.

    Install the driver, or run on the host: `execution="emulate"` for this backend's printed code, `target="cpu"`
    otherwise. Compiling for a GPU needs no driver.
    """

    code = "TILE-CUDA-E03"
    kind = "environment"


class ToolchainArchitectureError(TileError, RuntimeError):
    """The installed NVRTC or nvcc does not know the architecture that a kernel is compiled for.

    Every architecture has a first version of CUDA that compiles for it, and the message names it. Install that version
    of NVRTC, or compile for an architecture that the installed one knows: printing and emulation need none.
    """

    code = "TILE-CUDA-E04"
    kind = "environment"
