"""Give extents that divide a name in front of their buffer.

Later passes put what a division needs more than once into `let` expressions, and those into statements in front of
their use. The type of a buffer is used wherever the buffer is and has no such statement: a `let` would stay in it, and
TVM's passes would take each copy of the type, with names of its own, for another buffer. The whole extent is named, so
that no pass has anything to rewrite in the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.base import PassContext

_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)
_OPERATIONS = (*_DIVISIONS, E.Add, E.Sub, E.Mul, E.Min, E.Max, E.Cast, E.Select, ir.Call)


@dataclass(frozen=True)
class BindExtents:
    """See the module's docstring."""

    name: ClassVar[str] = "bind_extents"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        binder = _Binder()
        body = visit.mutate(
            func.body,
            (S.SeqStmt, binder.sequence),
            ((S.AllocBuffer, S.DeclBuffer), binder.buffer),
            (_OPERATIONS, binder.extent),
        )
        return func.with_body(body, func.span)


class _Binder:
    def __init__(self) -> None:
        self._binds: list[S.Bind] | None = None
        self._name = ""

    def sequence(self, seq: S.SeqStmt, mutator: Any) -> S.Stmt:
        return visit.sequence([mutator.mutate(stmt) for stmt in seq.seq], seq.span)

    def buffer(self, stmt: S.AllocBuffer | S.DeclBuffer, mutator: Any) -> S.Stmt:
        self._binds, self._name = [], str(stmt.buffer.name)
        declared, binds, self._binds = mutator.default_mutate(stmt), self._binds, None
        return visit.sequence([*binds, declared], stmt.span)

    def extent(self, expr: Any, mutator: Any) -> ir.Expr:
        if self._binds is None or not visit.collect(expr, _DIVISIONS):
            return mutator.default_mutate(expr)
        same = next((bind for bind in self._binds if tvm_ffi.structural_equal(bind.value, expr)), None)
        if same is None:
            same = S.Bind(tirx.Var(f"{self._name}_extent", expr.ty), expr)
            self._binds.append(same)
        return same.var
