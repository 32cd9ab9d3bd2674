"""Statements of one loop iteration, rewritten to run `lanes` consecutive iterations at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.regions import constant
from tile_core.ir.visit import collect, sequence
from tile_cpu.llvm.functions import Function
from tile_cpu.llvm.stores import LINE_BITS, store_past_caches
from tile_cpu.passes.affine import int_of, lanes_of
from tile_cpu.passes.vector_values import COMPARISON, NotVectorizableError, VectorValues, broadcast, conjunction


class VectorStatements:
    """Rewrites statements with the expressions of `values`; `mask` tells the lanes in which a statement runs.

    Whole vectors for the buffers in `passing` are stored past the caches; `functions` are what that needs.
    """

    def __init__(self, values: VectorValues, passing: frozenset[ir.Var] = frozenset()) -> None:
        self._values = values
        self._passing = passing
        self.functions: list[Function] = []

    def statement(self, stmt: S.Stmt, mask: ir.Expr | None) -> S.Stmt:
        """`stmt` for all lanes. Raises `NotVectorizableError`."""
        handler = _HANDLERS.get(type(stmt))
        if handler is None:
            raise NotVectorizableError(type(stmt).__name__)
        return handler(self, stmt, mask)

    def _sequence(self, stmt: S.SeqStmt, mask: ir.Expr | None) -> S.Stmt:
        return sequence([self.statement(child, mask) for child in stmt.seq], stmt.span)

    def _store(self, stmt: S.BufferStore, mask: ir.Expr | None) -> S.Stmt:
        lanes = self._values.lanes
        value = broadcast(self._values.value(stmt.value, mask), lanes)
        buffer, indices, consecutive = self._values.address(stmt.buffer, stmt.indices, mask)
        if all(lanes_of(index) == 1 for index in indices):
            raise NotVectorizableError("every iteration stores to one address")
        if mask is None and consecutive and buffer in self._passing and lanes * value.ty.dtype.bits == LINE_BITS:
            store = store_past_caches(str(buffer.dtype), lanes)
            self.functions.append(store)
            return store.call(tirx.address_of(tirx.BufferLoad(buffer, [*indices[:-1], indices[-1].base])), value)
        if mask is None:
            return S.BufferStore(buffer, value, indices, stmt.span)
        if not (consecutive and self._values.masked):
            raise NotVectorizableError("scattered store under a mask")
        return S.Evaluate(tirx.op.masked_store(buffer, value, *indices, mask), stmt.span)

    def _bind(self, stmt: S.Bind, mask: ir.Expr | None) -> S.Stmt:
        value = self._values.value(stmt.value, mask)
        return sequence(self._hold(stmt.var, value, stmt.span), stmt.span)

    def _hold(self, var: ir.Var, value: ir.Expr, span: ir.Span | None) -> list[S.Stmt]:
        """Evaluate `value` here and let `var` stand for it.

        TVM's analyzer fails on a name for a vector of conditions: such a value lives in memory, which LLVM promotes.
        Its code generator does not take loaded bools for a lane mask: conditions are kept as int8.
        """
        if lanes_of(value) == 1 or not _has_conditions(value):
            return [S.Bind(self._values.bind(var, value), value, span)]
        lanes = self._values.lanes
        dtype = str(value.ty.dtype).split("x")[0]
        kept = tirx.decl_buffer((lanes,), "int8" if dtype == "bool" else dtype, var.name, scope="local")
        indices = [tirx.Ramp(int_of("int32", 0), int_of("int32", 1), int_of("int32", lanes))]
        stored: ir.Expr = tirx.BufferLoad(kept, indices)
        if dtype == "bool":
            value = tirx.Cast(f"int8x{lanes}", value)
            stored = tirx.NE(stored, broadcast(int_of("int8", 0), lanes))
        self._values.define(var, stored)
        return [S.AllocBuffer(kept, span=span), S.BufferStore(kept, value, indices, span)]

    def _allocate(self, stmt: S.AllocBuffer, mask: ir.Expr | None) -> S.Stmt:
        """An array of one iteration gets a slot for each lane."""
        buffer = stmt.buffer
        shape = [*buffer.shape, int_of("int32", self._values.lanes)]
        wide = tirx.decl_buffer(shape, str(buffer.dtype), buffer.name, scope="local")
        self._values.private[buffer] = wide
        return S.AllocBuffer(wide, span=stmt.span)

    def _loop(self, stmt: S.For, mask: ir.Expr | None) -> S.Stmt:
        low, extent = self._values.value(stmt.min, mask), self._values.value(stmt.extent, mask)
        if lanes_of(low) > 1 or lanes_of(extent) > 1 or stmt.thread_binding is not None:
            raise NotVectorizableError("inner loop whose range differs between lanes")
        kind = S.ForKind.UNROLLED if stmt.kind == S.ForKind.UNROLLED else S.ForKind.SERIAL
        loop_var = self._values.bind(stmt.loop_var, low)
        body = self.statement(stmt.body, mask)
        return S.For(loop_var, low, extent, kind, body, None, stmt.annotations, stmt.step, span=stmt.span)

    def _branch(self, stmt: S.IfThenElse, mask: ir.Expr | None) -> S.Stmt:
        condition = self._values.value(stmt.condition, mask)
        known = constant(condition)
        if known is not None:
            branch = stmt.then_case if known else stmt.else_case
            return sequence([]) if branch is None else self.statement(branch, mask)
        if lanes_of(condition) == 1:
            other = None if stmt.else_case is None else self.statement(stmt.else_case, mask)
            return S.IfThenElse(condition, self.statement(stmt.then_case, mask), other, stmt.span)
        # Evaluated once: the branches may change what the condition reads.
        taken = tirx.Var("taken", "bool")
        steps = self._hold(taken, condition, stmt.span) if collect(stmt.condition, ir.TensorLoad) else []
        lane = self._values.value(taken) if steps else condition
        steps.append(self.statement(stmt.then_case, conjunction(mask, lane)))
        if stmt.else_case is not None:
            steps.append(self.statement(stmt.else_case, conjunction(mask, tirx.Not(lane))))
        return sequence(steps, stmt.span)

    def _evaluate(self, stmt: S.Evaluate, mask: ir.Expr | None) -> S.Stmt:
        if constant(stmt.value) is None:
            raise NotVectorizableError("call with effects")
        return stmt

    def _attribute(self, stmt: S.AttrStmt, mask: ir.Expr | None) -> S.Stmt:
        return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self.statement(stmt.body, mask), stmt.span)


def _has_conditions(value: ir.Expr) -> bool:
    return any(collect(value, kind) for kind in (*COMPARISON, tirx.Not)) or str(value.ty.dtype).startswith("bool")


_HANDLERS: Mapping[type, Callable[[VectorStatements, Any, ir.Expr | None], S.Stmt]] = {
    S.SeqStmt: VectorStatements._sequence,
    S.BufferStore: VectorStatements._store,
    S.Bind: VectorStatements._bind,
    S.AllocBuffer: VectorStatements._allocate,
    S.For: VectorStatements._loop,
    S.IfThenElse: VectorStatements._branch,
    S.Evaluate: VectorStatements._evaluate,
    S.AttrStmt: VectorStatements._attribute,
}
