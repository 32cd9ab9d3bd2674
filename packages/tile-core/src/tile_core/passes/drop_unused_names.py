"""Take out names that nothing uses: earlier passes bind an index for the reader, and some then say it another way.

A name whose value loads from memory or calls anything stays, whatever its use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class DropUnusedNames:
    """See the module."""

    name: ClassVar[str] = "drop_unused_names"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        binds = visit.collect(func.body, S.Bind)
        used = _used(func.body, binds)

        def keep(bind: S.Bind, _mutator: Any) -> S.Stmt:
            return bind if bind.var in used else visit.sequence([], bind.span)

        def run(seq: S.SeqStmt, mutator: Any) -> S.Stmt:
            kept = [mutator.mutate(stmt) for stmt in seq.seq if not isinstance(stmt, S.Bind) or stmt.var in used]
            return visit.sequence(kept, seq.span)

        if all(bind.var in used for bind in binds):
            return func
        return func.with_body(visit.mutate(func.body, (S.SeqStmt, run), (S.Bind, keep)), func.span)


def _used(body: S.Stmt, binds: list[S.Bind]) -> set[ir.Var]:
    """The variables that statements need, by way of other names too."""
    rest = visit.mutate(body, (S.Bind, lambda bind, _mutator: visit.sequence([], bind.span)))
    used = _with_sizes(visit.collect(rest, ir.Var))
    for bind in reversed(binds):
        if bind.var in used or visit.collect(bind.value, (ir.TensorLoad, ir.Call)):
            used |= {bind.var} | _with_sizes(visit.collect(bind.value, ir.Var))
    return used


def _with_sizes(found: Iterable[ir.Var]) -> set[ir.Var]:
    """Variables, and for buffers those of their extents and strides."""
    variables = set(found)
    for var in list(variables):
        if isinstance(var.ty, tirx.BufferType):
            sizes = (*var.ty.shape, *var.ty.strides)
            variables.update(inner for size in sizes for inner in visit.collect(size, ir.Var))
    return variables
