"""`breakpoint()` in a kernel: stops the interpreter where the kernel stands, with its tiles and values at hand."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.state import State

OPERATOR = "tile.breakpoint"


def compile_breakpoint(scope: Scope) -> Executor:
    """The function that stops."""
    names, place, span = scope.names, scope.place, scope.span
    line = "" if span is None else f"{span.file}:{span.line}"

    def run(state: State) -> None:
        tiles = {str(buffer.name): state.buffers[slot] for buffer, slot in names.buffers.items()}
        values = {str(var.name): state.values[slot] for var, slot in names.values.items()}
        stop(
            f"{line}{place.describe(state)}",
            {name: storage.data for name, storage in tiles.items() if storage is not None},
            {name: value for name, value in values.items() if value is not None},
            None if state.mask is None else state.mask,
        )

    return run


def stop(where: str, tiles: dict[str, Any], values: dict[str, Any], mask: np.ndarray[Any, Any] | None) -> None:
    """Where a debugger stops: `tiles` are the kernel's buffers as numpy arrays, to look at and to change.

    `values` are its variables, arrays over the iterations inside of `T.Parallel`, of which `mask` says who takes part.
    """
    sys.stdout.write(f"breakpoint at {where}; look at `tiles`, `values` and `mask`\n")
    sys.breakpointhook()  # noqa: T100 - what this is for
    del tiles, values, mask
