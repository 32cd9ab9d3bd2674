"""The scope check of a traced function: every variable and buffer is used where it is defined.

Names cannot break this, since markers guard them; values kept in Python containers, attributes and closures can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.frontend import ScopeError, SymbolError
from tile_core.ir.spans import from_tvm
from tile_core.ir.visit import walk

Key = int


def _key(var: ir.Var) -> Key:
    return hash(var)


def verify_scopes(body: S.Stmt, parameters: Iterable[ir.Var]) -> None:
    """Check the body of a function.

    Raises:
        ScopeError: a value or buffer outside of the region that defines it.
        SymbolError: a symbol that no parameter tells.
    """
    _Checker(parameters).statement(body)


def symbols_told(parameters: Iterable[ir.Var]) -> set[Key]:
    """The symbols that stand by themselves as a dimension or stride of a tensor parameter, or are parameters."""
    told: set[Key] = set()
    for parameter in parameters:
        told.add(_key(parameter))
        if tirx.is_buffer_var(parameter):
            told |= {_key(extent) for extent in (*parameter.shape, *parameter.strides) if isinstance(extent, ir.Var)}
    return told


class _Checker:
    def __init__(self, parameters: Iterable[ir.Var]) -> None:
        parameters = list(parameters)
        self.visible = symbols_told(parameters)
        self.defined: set[Key] = set()
        for parameter in parameters:
            if tirx.is_buffer_var(parameter):
                self.expressions((*parameter.shape, *parameter.strides), None)

    def statement(self, stmt: S.Stmt) -> None:
        handler = _HANDLERS.get(type(stmt))
        if handler is not None:
            handler(self, stmt)

    def expressions(self, nodes: Iterable[Any], span: ir.Span | None) -> None:
        for node in nodes:
            walk(node, (ir.Var, lambda var: self.use(var, span)))

    def use(self, var: ir.Var, span: ir.Span | None) -> None:
        if _key(var) in self.visible:
            return
        place = from_tvm(span)
        if _key(var) in self.defined:
            what = "buffer" if tirx.is_buffer_var(var) else "value"
            raise ScopeError(
                f"the {what} {var.name} is used outside of the loop, branch or kernel that defines it",
                remedy="define it before that region, or carry it in a T.alloc_var",
                span=place,
            )
        raise SymbolError(
            f"the value of {var.name} cannot be known: no tensor parameter has it as a dimension or stride by itself",
            remedy=f"declare a tensor with the dimension {var.name}, or pass it as a scalar parameter",
            span=place,
        )

    def define(self, var: ir.Var) -> None:
        self.visible.add(_key(var))
        self.defined.add(_key(var))

    def scoped(self, body: S.Stmt, *variables: ir.Var) -> None:
        outside = set(self.visible)
        for var in variables:
            self.define(var)
        self.statement(body)
        self.visible = outside

    def sequence(self, stmt: S.SeqStmt) -> None:
        outside = set(self.visible)
        for child in stmt.seq:
            self.statement(child)
        self.visible = outside

    def loop(self, stmt: S.For) -> None:
        self.expressions((stmt.min, stmt.extent), stmt.span)
        self.scoped(stmt.body, stmt.loop_var)

    def while_loop(self, stmt: S.While) -> None:
        self.expressions((stmt.condition,), stmt.span)
        self.scoped(stmt.body)

    def branch(self, stmt: S.IfThenElse) -> None:
        self.expressions((stmt.condition,), stmt.span)
        self.scoped(stmt.then_case)
        if stmt.else_case is not None:
            self.scoped(stmt.else_case)

    def attribute(self, stmt: S.AttrStmt) -> None:
        self.expressions((stmt.value,), stmt.span)
        self.scoped(stmt.body)

    def bind(self, stmt: S.Bind) -> None:
        self.expressions((stmt.value,), stmt.span)
        self.define(stmt.var)

    def allocate(self, stmt: S.AllocBuffer | S.DeclBuffer) -> None:
        buffer = stmt.buffer
        self.expressions((*buffer.shape, *buffer.strides), stmt.span)
        if isinstance(stmt, S.DeclBuffer):
            self.expressions((stmt.data,), stmt.span)
        self.define(buffer)

    def store(self, stmt: S.BufferStore) -> None:
        self.expressions((stmt.buffer, stmt.value, *stmt.indices), stmt.span)

    def evaluate(self, stmt: S.Evaluate) -> None:
        self.expressions((stmt.value,), stmt.span)

    def assertion(self, stmt: S.AssertStmt) -> None:
        self.expressions((stmt.condition,), stmt.span)


_HANDLERS: dict[type, Any] = {
    S.SeqStmt: _Checker.sequence,
    S.For: _Checker.loop,
    S.While: _Checker.while_loop,
    S.IfThenElse: _Checker.branch,
    S.AttrStmt: _Checker.attribute,
    S.Bind: _Checker.bind,
    S.AllocBuffer: _Checker.allocate,
    S.DeclBuffer: _Checker.allocate,
    S.BufferStore: _Checker.store,
    S.Evaluate: _Checker.evaluate,
    S.AssertStmt: _Checker.assertion,
}
