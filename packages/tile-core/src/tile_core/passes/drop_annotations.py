"""Remove the annotations of buffers, once every pass that reads them has run.

`T.annotate_layout` and its relatives stand in the program as attribute statements with an empty body
(`language/annotate.py`). What they hold is for passes only: a code generator has no meaning for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops.base import PREFIX
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class DropAnnotations:
    """See the module's docstring."""

    name: ClassVar[str] = "drop_annotations"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.AttrStmt, _drop))


def _drop(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
    if stmt.attr_key.startswith(PREFIX):
        return mutator.mutate(stmt.body)
    return mutator.default_mutate(stmt)
