"""`T.Kernel` of the CPU: a block is one sequential program, so there is no `threads`."""

from __future__ import annotations

from tile_core.language.kernel import kernel_type

__all__ = ["Kernel"]

Kernel = kernel_type(
    "CPU",
    ["prelude"],
    advice="a block has no threads on a CPU; the portable tile_core.language takes `threads`, and ignores it here",
)
