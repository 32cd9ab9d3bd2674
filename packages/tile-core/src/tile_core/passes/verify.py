"""Whether a program is well formed: what every pass may assume and must leave behind.

It is run between passes by the tests and by `TILE_DEBUG`-style observers, never on the way of an ordinary compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.errors.passes import MalformedProgramError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm

Scope = frozenset[Any]
_REMEDY = "the fault is in the pass that ran last, not in the kernel: report it with the kernel"


def verify(func: tirx.PrimFunc) -> None:
    """Check scopes, ranks and dtypes of `func`.

    Raises:
        MalformedProgramError: a name is used where it is not defined, an access has another number of indices than its
            buffer has axes, a store of another dtype, or a loop whose bounds and variable differ in dtype.
    """
    scope = frozenset(func.params).union(*(_sizes(param) for param in func.params))
    _Verifier().statement(func.body, scope)


def verifying(name: str, func: tirx.PrimFunc) -> None:
    """An observer for `run_pipeline` that checks `func` and names the pass in the error."""
    try:
        verify(func)
    except MalformedProgramError as error:
        raise MalformedProgramError(f"after {name}: {error.message}", remedy=_REMEDY, span=error.span) from error


class _Verifier:
    def statement(self, stmt: S.Stmt, scope: Scope) -> Scope:
        """Check `stmt`; the names in scope after it."""
        for expr in _expressions(stmt):
            self.expression(expr, scope, stmt)
        if isinstance(stmt, S.SeqStmt):
            inner = scope
            for child in stmt.seq:
                inner = self.statement(child, inner)
            return scope
        if isinstance(stmt, S.For):
            self._same(stmt.loop_var.ty, stmt.extent.ty, "a loop's variable and extent", stmt)
            self.statement(stmt.body, scope | {stmt.loop_var})
            return scope
        if isinstance(stmt, S.BufferStore):
            self._store(stmt, scope)
        for child in visit.children(stmt):
            self.statement(child, scope)
        return scope | _defined(stmt)

    def expression(self, expr: ir.Expr, scope: Scope, stmt: S.Stmt) -> None:
        known = scope.union(let.var for let in visit.collect(expr, E.Let))

        def var(node: ir.Var) -> None:
            if node not in known:
                raise _malformed(f"{node.name} is used where it is not defined", stmt)

        def load(node: ir.TensorLoad) -> None:
            self._rank(node.source, node.indices, stmt)

        visit.walk(expr, (ir.Var, var), (ir.TensorLoad, load))

    def _store(self, store: S.BufferStore, scope: Scope) -> None:
        if store.buffer not in scope:
            raise _malformed(f"{store.buffer.name} is stored to where it is not defined", store)
        self._rank(store.buffer, store.indices, store)
        lanes = max((int(index.ty.dtype.lanes) for index in store.indices), default=1)
        element = store.buffer.ty.dtype.dtype
        wanted = ir.PrimType(str(element) if lanes == 1 else f"{element}x{lanes * int(element.lanes)}")
        self._same(store.value.ty, wanted, f"a value and the element of {store.buffer.name}", store)

    def _rank(self, buffer: ir.Var, indices: Any, stmt: S.Stmt) -> None:
        if len(indices) != len(buffer.shape):
            raise _malformed(f"{buffer.name} has {len(buffer.shape)} axes and is indexed with {len(indices)}", stmt)

    def _same(self, a: Any, b: Any, what: str, stmt: S.Stmt) -> None:
        if str(a) != str(b):
            raise _malformed(f"{what} differ in dtype: {a} and {b}", stmt)


def _malformed(message: str, stmt: S.Stmt) -> MalformedProgramError:
    return MalformedProgramError(message, remedy=_REMEDY, span=from_tvm(stmt.span))


def _sizes(var: ir.Var) -> set[Any]:
    """The names in the type of a buffer."""
    if not is_buffer_var(var):
        return set()
    parts = (*var.shape, *var.strides, var.elem_offset)
    return {name for part in parts for name in visit.collect(part, ir.Var)}


def _defined(stmt: S.Stmt) -> set[Any]:
    if isinstance(stmt, S.Bind):
        return {stmt.var}
    if isinstance(stmt, S.AllocBuffer | S.DeclBuffer):
        return {stmt.buffer}
    return set()


def _expressions(stmt: S.Stmt) -> Iterator[ir.Expr]:
    if isinstance(stmt, S.For):
        yield from (stmt.min, stmt.extent)
    elif isinstance(stmt, S.IfThenElse | S.While | S.AssertStmt):
        yield stmt.condition
    elif isinstance(stmt, S.Bind | S.Evaluate | S.Return):
        yield stmt.value
    elif isinstance(stmt, S.BufferStore):
        yield from (*stmt.indices, stmt.value)
    elif isinstance(stmt, S.AllocBuffer):
        yield from stmt.buffer.shape
    elif isinstance(stmt, S.DeclBuffer):
        yield stmt.data
