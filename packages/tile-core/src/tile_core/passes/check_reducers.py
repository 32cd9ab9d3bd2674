"""Refuse reducers that are used outside of their order.

Between `reducer_init` and `finalize_reducer` a reducer holds partial results, one a thread where there are threads, so
nothing but contributions may touch it; before and after, a contribution would be lost. Statements are taken in the
order in which they stand, which is what the author sees; a branch or a loop body counts once.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.ops import ReducerError
from tile_core.ir import launch, visit
from tile_core.ir.regions import REDUCER, scope
from tile_core.ir.spans import from_tvm
from tile_core.ops.base import op_name

INIT, FINALIZE = "tile.reducer_init", "tile.reducer_finalize"


def check_reducers(body: S.Stmt) -> None:
    """Check every launch of a function. Raises `ReducerError`."""
    for nest in launch.launches(body):
        _Epochs().check(nest)


class _Epochs:
    def __init__(self) -> None:
        self._open: dict[ir.Var, S.Stmt] = {}
        self._span: Any = None

    def check(self, nest: S.Stmt) -> None:
        for stmt in visit.statements(nest):
            self._span = stmt.span or self._span
            self._statement(stmt)
        for buffer, opened in self._open.items():
            raise _error(f"{buffer.name} is never finalised", "call T.finalize_reducer after the loop", opened.span)

    def _statement(self, stmt: S.Stmt) -> None:
        name = op_name(stmt)
        if name == INIT:
            self._open[stmt.value.args[0].source] = stmt
        elif name == FINALIZE:
            self._open.pop(stmt.value.args[0].source, None)
        elif isinstance(stmt, S.BufferStore) and scope(stmt.buffer) == REDUCER:
            self._contribution(stmt)
        else:
            for expr in _expressions(stmt):
                self._reads(expr)

    def _contribution(self, store: S.BufferStore) -> None:
        if store.buffer not in self._open:
            raise _error(
                f"{store.buffer.name} is contributed to outside of an epoch",
                "call T.reducer_init before the loop",
                self._span,
            )
        self._reads(store.value, allowed=store.buffer)

    def _reads(self, expr: ir.Expr, allowed: ir.Var | None = None) -> None:
        accesses = [*visit.collect(expr, ir.TensorLoad), *visit.collect(expr, ir.TensorRegion)]
        for buffer in (access.source for access in accesses):
            if buffer in self._open and not (allowed is not None and buffer.same_as(allowed)):
                raise _error(
                    f"{buffer.name} is read before it is finalised",
                    "call T.finalize_reducer before reading it",
                    self._span,
                )


def _expressions(stmt: S.Stmt) -> list[ir.Expr]:
    if isinstance(stmt, S.BufferStore):
        return [stmt.value, *stmt.indices]
    if isinstance(stmt, S.Evaluate | S.Bind):
        return [stmt.value]
    if isinstance(stmt, S.IfThenElse | S.While):
        return [stmt.condition]
    return [stmt.min, stmt.extent] if isinstance(stmt, S.For) else []


def _error(message: str, remedy: str, span: Any) -> ReducerError:
    return ReducerError(f"the reducer {message}", remedy=remedy, span=from_tvm(span))
