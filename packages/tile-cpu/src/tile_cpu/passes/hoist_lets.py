"""Turn `let` expressions into names bound by statements.

TVM's code generator refuses a `let` whose value contains another one: its analyzer then meets the inner name twice. A
`let` in a branch of `if_then_else` must stay there, because the branch may not be evaluated; inside of it, the names
are put in a chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import IF_THEN_ELSE


@dataclass(frozen=True)
class HoistLets:
    """See the module's docstring."""

    name: ClassVar[str] = "hoist_lets"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        body = visit.mutate(
            func.body,
            (S.BufferStore, _store),
            (S.Evaluate, lambda stmt, _: _with(stmt, lambda names: S.Evaluate(names.of(stmt.value), stmt.span))),
            (S.Bind, lambda stmt, _: _with(stmt, lambda names: S.Bind(stmt.var, names.of(stmt.value), stmt.span))),
            (S.IfThenElse, _branch),
            (S.For, _loop),
        )
        return func.with_body(body, func.span)


class _Names:
    """The names bound so far in front of one statement."""

    def __init__(self) -> None:
        self.binds: dict[ir.Var, ir.Expr] = {}

    def of(self, expr: ir.Expr) -> ir.Expr:
        """`expr` with its `let`s moved to `binds`."""
        return visit.mutate(expr, (E.Let, self._let), (ir.Call, self._call))

    def _let(self, let: E.Let, mutator: Any) -> ir.Expr:
        if let.var not in self.binds:
            self.binds[let.var] = mutator.mutate(let.value)
        return mutator.mutate(let.body)

    def _call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        if not (isinstance(call.op, ir.Op) and call.op.name == IF_THEN_ELSE):
            return mutator.default_mutate(call)
        condition, *sides = call.args
        chained = [_chained(side, self.binds) for side in sides]
        return ir.Call(call.op, [mutator.mutate(condition), *chained], ret_ty=call.ty, span=call.span)


def _chained(expr: ir.Expr, known: dict[ir.Var, ir.Expr]) -> ir.Expr:
    names = _Names()
    names.binds = dict(known)
    body = names.of(expr)
    for var, value in reversed(list(names.binds.items())[len(known) :]):
        body = E.Let(var, value, body)
    return body


def _with(stmt: S.Stmt, rewrite: Any) -> S.Stmt:
    names = _Names()
    rewritten = rewrite(names)
    binds = [S.Bind(var, value, stmt.span) for var, value in names.binds.items()]
    return visit.sequence([*binds, rewritten], stmt.span)


def _store(store: S.BufferStore, _mutator: Any) -> S.Stmt:
    def rewrite(names: _Names) -> S.Stmt:
        indices = [names.of(index) for index in store.indices]
        return rebuild.store(store, value=names.of(store.value), indices=indices)

    return _with(store, rewrite)


def _branch(branch: S.IfThenElse, mutator: Any) -> S.Stmt:
    then = mutator.mutate(branch.then_case)
    otherwise = None if branch.else_case is None else mutator.mutate(branch.else_case)
    return _with(branch, lambda names: S.IfThenElse(names.of(branch.condition), then, otherwise, branch.span))


def _loop(loop: S.For, mutator: Any) -> S.Stmt:
    body = mutator.mutate(loop.body)
    return _with(
        loop, lambda names: rebuild.loop(loop, min=names.of(loop.min), extent=names.of(loop.extent), body=body)
    )
