"""Errors of the autotuner (E0740 to E0749)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = ["AutotuneConfigError", "AutotuneFailedError", "AutotuneOptionError"]


class AutotuneConfigError(TileError, ValueError):
    """The configs of a tuned kernel cannot be used.

    `configs` is a non-empty list of mappings, or a function of the kernel's own arguments that returns one. The keys of
    a mapping are parameters of the kernel's function; the key `pass_configs` is reserved for pass options of that one
    candidate.
    """

    code = "TILE-E0740"


class AutotuneFailedError(TileError, RuntimeError):
    """No candidate compiled, ended in time and gave right results.

    The message lists each candidate with the reason. Candidates that fail are left out as long as one is right.
    """

    code = "TILE-E0741"


class AutotuneOptionError(TileError, ValueError, TypeError):
    """The autotuner was given a function, an option or inputs that it cannot work with.

    `autotune` stands above `jit`. Its times are milliseconds, except `timeout`, which is seconds for one candidate.
    Inputs that the tuner cannot make itself, because a kernel has scalar parameters or symbolic shapes, come from
    `supply_prog` or `with set_autotune_inputs(...)`.
    """

    code = "TILE-E0742"
