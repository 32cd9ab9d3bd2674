"""Take the marks of `legalize_bounds` off the guards, once the passes that read them have run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tile_core.passes.base import PassContext
from tile_core.passes.ranges import unmarked


@dataclass(frozen=True)
class DropGuardMarks:
    """Code generators do not know `likely`; the guards themselves stay."""

    name: ClassVar[str] = "drop_guard_marks"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return func.with_body(unmarked(func.body), func.span)
