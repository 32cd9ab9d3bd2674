"""Errors of this backend. A plugin's codes begin with its own name, so that they never meet those of tile-core."""

from __future__ import annotations

from tile_core.errors import TileError


class MissingCompilerError(TileError, RuntimeError):
    """The C compiler was not found.

    Install one (`apt-get install gcc`, `dnf install gcc`, `xcode-select --install`), or name another in `TILE_TOY_CC`.
    `tile compile FILE:FACTORY --target toy --show-source` needs none.
    """

    code = "TILE-TOY-E01"
    kind = "environment"


class CompilerFailedError(TileError, RuntimeError):
    """The C compiler refused the printed source: a mistake of this backend, or flags it does not know.

    The message holds the compiler's first complaint, and the source is in the exception's notes.
    """

    code = "TILE-TOY-E02"
