"""Keep each reduction's own statement beside its loops.

`lower_tile_ops` turns a reduction into loops that any target can run. Where a tile is spread over threads there is a
better way, so this pass wraps the statement in an attribute that still says what the loops mean; `partition_loops`
chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops.base import op_name
from tile_core.passes.base import PassContext

REDUCTION, SCAN = "tile.reduction", "tile.scanned"
_KEYS = {"tile.reduce": REDUCTION, "tile.scan": SCAN}


@dataclass(frozen=True)
class MarkReductions:
    """Wrap every `tile.reduce` and `tile.scan` in an attribute whose node is the call."""

    name: ClassVar[str] = "mark_reductions"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The program with every reduction and scan marked."""
        return visit.mutate(func, (S.Evaluate, _mark))


def _mark(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
    key = _KEYS.get(op_name(stmt) or "")
    return stmt if key is None else S.AttrStmt(stmt.value, key, tirx.IntImm("int32", 1), stmt, stmt.span)
