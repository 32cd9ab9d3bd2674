"""The positions of a function's statements, which rewritten code refers to by number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tile_core.errors.base import SourceSpan

if TYPE_CHECKING:
    from tvm import ir


@dataclass(frozen=True)
class Place:
    """Where a statement stands and the names that it binds."""

    span: SourceSpan
    targets: tuple[str, ...]

    @cached_property
    def tvm(self) -> ir.Span | None:
        """The span as TVM keeps it."""
        from tile_core.ir.spans import to_tvm

        return to_tvm(self.span)
