"""Errors of the runner for TileLang programs (E0900 to E0909)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "CompatAttributeError",
    "CompatDeviceError",
    "CompatImportError",
    "CompatOptionError",
    "CompatWarning",
    "PassConfigKeyError",
]


class CompatImportError(TileError, ImportError):
    """A module or a name that a TileLang program imports does not exist here.

    The message says whether TileLang 0.1.15 has it, and what to use instead. `docs/migrating.md` lists the differences.
    """

    code = "TILE-E0900"
    kind = "unsupported"


class CompatAttributeError(TileError, AttributeError):
    """A name of a TileLang module, or of one of its objects, does not exist here.

    The message says whether TileLang 0.1.15 has it, and what to use instead. `docs/migrating.md` lists the differences.
    """

    code = "TILE-E0901"
    kind = "unsupported"


class CompatDeviceError(TileError, RuntimeError, AssertionError):
    """A TileLang program asks for a device that this machine does not have.

    The runner can send the program to another one, tensors included: `--target cpu` compiles every kernel for the CPU,
    and `--execution emulate` runs the code of the target that the program names, on the host. The variables
    `TILE_TARGET` and `TILE_EXECUTION` do the same.
    """

    code = "TILE-E0902"
    kind = "environment"


class CompatOptionError(TileError, ValueError):
    """An option has a value that TileLang does not accept either, as an execution backend that there is not."""

    code = "TILE-E0903"


class PassConfigKeyError(TileError, AttributeError, KeyError):
    """TileLang has no pass config of this name.

    Known keys are the members of `tilelang.PassConfigKey`. Those that mean nothing here are accepted with a warning.
    """

    code = "TILE-E0904"


class CompatWarning(UserWarning):
    """Something that a TileLang program asks for means nothing here, and was left out. Each is said once a process."""
