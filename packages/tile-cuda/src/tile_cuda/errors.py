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
    """NVRTC refused a printed kernel: a mistake of this backend, a flag that it does not know, or text of `prelude`.

    The message holds the first complaint; log and source are in the exception's notes.
    """

    code = "TILE-CUDA-E02"


class LaunchError(TileError, RuntimeError):
    """The driver refused to load or to launch a kernel.

    The message names the driver's reason. A grid is limited to 2³¹ - 1 blocks along x and 65535 along y and z; an
    error of an earlier kernel can appear here, since kernels run asynchronously.
    """

    code = "TILE-CUDA-E03"
