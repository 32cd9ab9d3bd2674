"""Errors raised by layouts and their inference."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = ["DivergentBarrierError", "LayoutError", "PlottingUnavailableError"]


class LayoutError(TileError, ValueError):
    """A layout is not usable: it is not injective, leaves its range, cannot be inverted, or cannot be kept in a kernel.

    A layout must give every element a place of its own with non-negative coordinates. Change the index function so that
    no two logical indices map to one place, or enlarge the range that it maps to.

    A layout of a fragment or of loops is kept as it is given. It must deal each axis by itself, digit by digit, as
    `(i // 4 + j % 2 * 16, i % 4 + j // 2 * 4)` does; tiles and loops that use each other must agree; a fragment with
    a layout must be accessed by the loops' own variables, so that it can stay in registers.
    """

    code = "TILE-E0601"


class DivergentBarrierError(TileError, ValueError):
    """Threads of a block would have to work together inside of a branch that not all of them take.

    A tile operation or `T.Parallel` stands under a condition on the thread index, or on a value that differs between
    threads. Its work is divided among all threads, and a barrier there never completes. A condition that holds for
    neighbouring whole warps, such as `if tx < 128:`, makes the branch theirs. Otherwise move the operations out of the
    branch, or branch on a value that is the same for the whole block.
    """

    code = "TILE-E0602"


class PlottingUnavailableError(TileError, ImportError):
    """A layout was to be drawn into a file, and matplotlib is not installed.

    Drawing is the only thing that needs it: `python -m pip install matplotlib`. Without a path, `plot_layout` returns
    the same as text.
    """

    code = "TILE-E0603"
    kind = "environment"
