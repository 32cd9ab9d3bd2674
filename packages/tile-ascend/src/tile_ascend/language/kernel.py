"""`T.Kernel` of the Ascend dialect.

The hardware launches a number of AI cores, so a grid has exactly one axis; threads exist only inside of SIMT functions,
which have 128 where nothing else is said.
"""

from __future__ import annotations

from tile_core.language.kernel import kernel_type

__all__ = ["Kernel"]

Kernel = kernel_type(
    "Ascend",
    ["prelude"],
    max_extents=1,
    min_extents=1,
    advice="the grid is the number of AI cores, one axis, and threads are those of SIMT functions",
)
