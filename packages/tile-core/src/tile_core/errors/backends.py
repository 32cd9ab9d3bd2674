"""Errors of backends as such: what an installed backend does not do (E0590 to E0599)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = ["CodeGenerationUnimplementedError", "DialectNameUnimplementedError"]


class CodeGenerationUnimplementedError(TileError, NotImplementedError):
    """The backend is installed and knows its hardware, but does not generate code for it yet.

    Nothing was compiled and nothing ran. The message says what exists. A kernel written with the portable language
    (`import tile_core.language as T`) runs unchanged on any backend that generates code: choose one with
    `target=`, or leave `target="auto"`, which never chooses a backend that cannot compile.
    """

    code = "TILE-E0590"
    kind = "unimplemented"


class DialectNameUnimplementedError(TileError, AttributeError):
    """The name belongs to the dialect in use, and does not exist yet.

    A backend's dialect has the portable names and the names of its vendor. The message says which backend it is.
    Portable names work on every backend that generates code.
    """

    code = "TILE-E0591"
    kind = "unimplemented"
