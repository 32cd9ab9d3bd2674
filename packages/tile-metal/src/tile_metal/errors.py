"""Errors of this backend."""

from __future__ import annotations

from tile_core.errors import TileError

__all__ = ["DeviceCompilerError", "LaunchError", "MissingMetalError"]


class MissingMetalError(TileError, RuntimeError):
    """Torch cannot compile for Metal here: it is older than 2.6, or it was built without MPS.

    Without it kernels run on the host: `execution="emulate"`.
    """

    code = "TILE-METAL-E01"
    kind = "environment"


class DeviceCompilerError(TileError, RuntimeError):
    """Metal's compiler refused a printed kernel: a mistake of this backend, or text of `prelude`.

    The message holds the first complaint; log and source are in the exception's notes.
    """

    code = "TILE-METAL-E02"


class LaunchError(TileError, RuntimeError):
    """Torch refused to launch a kernel, or its grid is larger than Metal can count.

    The message names the reason.
    """

    code = "TILE-METAL-E03"
