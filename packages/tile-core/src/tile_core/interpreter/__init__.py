"""The interpreter: runs a tile program op by op in numpy, in the language's reference meaning.

`target="interpret"` selects it. It takes the program as the frontend made it, before any pass, and shares no lowering
with a backend, so it is the oracle that backends are compared to; and it checks what they do not: indices of tiles,
reads of what nothing wrote, races between the iterations of `T.Parallel`, barriers that not all threads reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tile_core.interpreter.options import Options, Step
    from tile_core.interpreter.program import Program

__all__ = ["Options", "Program", "Step"]


def __getattr__(name: str) -> Any:
    # The classes need numpy and TVM; the manifest beside them must not.
    if name == "Program":
        from tile_core.interpreter.program import Program

        return Program
    if name in ("Options", "Step"):
        from tile_core.interpreter import options

        return getattr(options, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
