"""Replace every tile op by loops: the backend's lowering where its table has one, else the portable one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.errors.base import TileError
from tile_core.errors.passes import MissingLoweringError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.ops import OPS
from tile_core.ops.base import LowerContext, OpCall, TileOp, op_name, view
from tile_core.passes.base import PassContext

Lowering = Callable[[OpCall, LowerContext], S.Stmt]


@dataclass(frozen=True)
class LowerTileOps:
    """Lower tile ops, in the order in which they stand in the program; a lowering may use tile ops itself."""

    name: ClassVar[str] = "lower_tile_ops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        lowerer = _Lowerer(OPS, context)
        return visit.mutate(func, (S.Evaluate, lowerer.evaluate))


class _Lowerer:
    def __init__(self, table: Mapping[str, TileOp], context: PassContext) -> None:
        self._table = table
        self._backend = context.backend
        self._context = LowerContext(context.target, context.capabilities, context.options)
        self._resolved: dict[str, Lowering] = {}

    def evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        name = op_name(stmt)
        if name is None or name not in self._table:
            return stmt
        call = view(stmt, self._table)
        try:
            lowered = self._lowering(name, call)(call, self._context)
        except TileError as error:
            error.span = error.span or call.source_span
            raise
        return mutator.mutate(with_span(lowered, stmt.span))

    def _lowering(self, name: str, call: OpCall) -> Lowering:
        if name not in self._resolved:
            self._resolved[name] = self._find(name, call)
        return self._resolved[name]

    def _find(self, name: str, call: OpCall) -> Lowering:
        reference = self._backend.op_lowerings.get(name)
        if reference is not None:
            from tile_core.plugins.manager import resolve

            return resolve(reference)
        if call.op.lower is None:
            raise MissingLoweringError(
                f"the backend {self._backend.name!r} has no lowering of {name.removeprefix('tile.')}",
                remedy="use another target, or express the operation with T.Parallel",
                span=from_tvm(call.span),
            )
        return call.op.lower


def with_span(stmt: S.Stmt, span: Any) -> S.Stmt:
    """Give the statements of a lowering the line of the op that they stand for, where they have none."""
    if span is None:
        return stmt
    return visit.mutate(stmt, (S.For, _spanned_loop(span)), (S.BufferStore, _spanned_store(span)))


def _spanned_loop(span: Any) -> Callable[[S.For, Any], S.For]:
    def attach(loop: S.For, mutator: Any) -> S.For:
        loop = mutator.default_mutate(loop)
        if loop.span is not None:
            return loop
        return S.For(
            loop.loop_var,
            loop.min,
            loop.extent,
            S.ForKind(loop.kind),
            loop.body,
            loop.thread_binding,
            loop.annotations,
            loop.step,
            span=span,
        )

    return attach


def _spanned_store(span: Any) -> Callable[[S.BufferStore, Any], S.BufferStore]:
    def attach(store: S.BufferStore, mutator: Any) -> S.BufferStore:
        return store if store.span is not None else S.BufferStore(store.buffer, store.value, store.indices, span)

    return attach
