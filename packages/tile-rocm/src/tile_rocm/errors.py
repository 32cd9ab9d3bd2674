"""Errors of this backend."""

from __future__ import annotations

from tile_core.errors import TileError

__all__ = ["DeviceCompilerError", "LaunchError", "MissingRocmError"]


class MissingRocmError(TileError, RuntimeError):
    """A library of ROCm is not installed: HIPRTC, which compiles, or the HIP runtime, which launches.

    Both come with a ROCm build of torch, and with ROCm itself. Without them kernels run on the host:
    `execution="emulate"`.
    """

    code = "TILE-ROCM-E01"
    kind = "environment"


class DeviceCompilerError(TileError, RuntimeError):
    """HIPRTC refused a printed kernel: a mistake of this backend, a flag that it does not know, or text of `prelude`.

    The message holds the first complaint; log and source are in the exception's notes.
    """

    code = "TILE-ROCM-E02"


class LaunchError(TileError, RuntimeError):
    """The HIP runtime refused to load or to launch a kernel.

    The message names the runtime's reason. An error of an earlier kernel can appear here, since kernels run
    asynchronously.
    """

    code = "TILE-ROCM-E03"
