"""Errors of this backend."""

from __future__ import annotations

from tile_core.errors import TileError

__all__ = ["DeviceCompilerError", "LaunchError", "MissingCannError"]


class MissingCannError(TileError, RuntimeError):
    """A part of CANN is not installed: Bisheng, which compiles, or the runtime, which launches.

    Both come with the CANN toolkit, which `ASCEND_HOME_PATH` names. Without it kernels run on the host:
    `execution="emulate"`.
    """

    code = "TILE-ASCEND-E01"
    kind = "environment"


class DeviceCompilerError(TileError, RuntimeError):
    """Bisheng or its linker refused a printed kernel: a mistake of this backend, an unknown flag, or text of `prelude`.

    The message holds the first complaint; log and source are in the exception's notes.
    """

    code = "TILE-ASCEND-E02"


class LaunchError(TileError, RuntimeError):
    """The runtime of CANN refused to load or to launch a kernel.

    The message names the runtime's status and reason. An error of an earlier kernel can appear here, since kernels run
    asynchronously.
    """

    code = "TILE-ASCEND-E03"
