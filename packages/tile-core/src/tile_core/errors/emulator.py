"""Errors raised by emulated execution."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = ["EmulatorCompilerError", "EmulatorRunError", "MissingCompilerError"]


class MissingCompilerError(TileError, RuntimeError):
    """Emulated execution compiles the printed source for the CPU, and there is no C++ compiler.

    Install one (`apt-get install g++`, `dnf install gcc-c++`, `xcode-select --install`) or name one in `CXX`.
    """

    code = "TILE-E0651"
    kind = "environment"


class EmulatorCompilerError(TileError, RuntimeError):
    """The C++ compiler refused a printed kernel.

    Either the backend prints something that its emulator header lacks, or the header is wrong. The source is in the
    exception's notes; the backend's `emulator/include` is the place to add a missing name.
    """

    code = "TILE-E0652"


class EmulatorRunError(TileError, RuntimeError):
    """An emulated kernel did not finish: threads wait for each other, or it asks for more memory than there is.

    The message names the block and the threads that wait. A barrier that not every thread reaches is the usual cause.
    """

    code = "TILE-E0653"
