"""Keep values that have a name in variables on the stack, where LLVM promotes them to registers.

TVM's analyzer, which its passes and its code generator carry along, replaces every bound name by its value. A chain
of names that use each other twice grows exponentially there, and a `let` inside the value of another one is refused.
So `let` expressions and names of data become stores to a cell and loads from it, in front of the statement that uses
them. Names of short index arithmetic, of addresses and of sizes stay bound: the analyzer needs the first, and the types
of buffers name the last.

A `let` in a branch of `if_then_else` may not be evaluated outside of it: such a choice becomes an `if` statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import IF_THEN_ELSE
from tile_core.passes.ranges import reads_memory
from tile_cpu.passes.plan_memory import ON_STACK

INDEX_SIZE = 64
"""How many nodes the value of a bound index may have with all names in it replaced."""


@dataclass(frozen=True)
class HoistLets:
    """See the module's docstring."""

    name: ClassVar[str] = "hoist_lets"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        return func.with_body(_Hoister(_sizes(func.body)).statement(func.body), func.span)


Rewrite = Callable[[Callable[[ir.Expr], ir.Expr]], S.Stmt]


class _Hoister:
    """One mutation of the whole body; `_prefix` collects what goes in front of the statement at hand."""

    def __init__(self, sizes: set[ir.Var]) -> None:
        self._in_types = sizes
        self._values: dict[ir.Var, ir.Expr] = {}
        self._sizes: dict[ir.Var, int] = {}
        self._prefix: list[S.Stmt] = []

    def statement(self, stmt: S.Stmt) -> S.Stmt:
        return visit.mutate(
            stmt,
            (S.SeqStmt, self._sequence),
            (S.Bind, self._bind),
            (S.BufferStore, self._store),
            (S.Evaluate, self._evaluate),
            (S.IfThenElse, self._branch),
            (S.For, self._loop),
            (S.AssertStmt, self._assertion),
            (E.Let, self._let),
            (ir.Call, self._call),
            (ir.Var, lambda var, _: self._values.get(var, var)),
        )

    @contextmanager
    def _collecting(self) -> Iterator[list[S.Stmt]]:
        """A prefix of its own for a statement or a branch."""
        outer, self._prefix = self._prefix, []
        yield self._prefix
        self._prefix = outer

    def _prefixed(self, stmt: S.Stmt, mutator: Any, rewrite: Rewrite) -> S.Stmt:
        with self._collecting() as prefix:
            rewritten = rewrite(mutator.mutate)
        return visit.sequence([*prefix, rewritten], stmt.span)

    def _sequence(self, seq: S.SeqStmt, mutator: Any) -> S.Stmt:
        return visit.sequence([mutator.mutate(stmt) for stmt in seq.seq], seq.span)

    def _bind(self, stmt: S.Bind, mutator: Any) -> S.Stmt:
        with self._collecting() as prefix:
            value = mutator.mutate(stmt.value)
            if self._stays_bound(stmt.var, value):
                prefix.append(S.Bind(stmt.var, value, stmt.span))
            else:
                self._put(stmt.var, value)
        return visit.sequence(prefix, stmt.span)

    def _store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        def rewrite(of: Callable[[ir.Expr], ir.Expr]) -> S.Stmt:
            return rebuild.store(store, value=of(store.value), indices=[of(index) for index in store.indices])

        return self._prefixed(store, mutator, rewrite)

    def _evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        return self._prefixed(stmt, mutator, lambda of: S.Evaluate(of(stmt.value), stmt.span))

    def _branch(self, branch: S.IfThenElse, mutator: Any) -> S.Stmt:
        then = mutator.mutate(branch.then_case)
        otherwise = None if branch.else_case is None else mutator.mutate(branch.else_case)
        return self._prefixed(
            branch, mutator, lambda of: S.IfThenElse(of(branch.condition), then, otherwise, branch.span)
        )

    def _loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        body = mutator.mutate(loop.body)
        return self._prefixed(
            loop, mutator, lambda of: rebuild.loop(loop, min=of(loop.min), extent=of(loop.extent), body=body)
        )

    def _assertion(self, stmt: S.AssertStmt, mutator: Any) -> S.Stmt:
        def rewrite(of: Callable[[ir.Expr], ir.Expr]) -> S.Stmt:
            return S.AssertStmt(of(stmt.condition), stmt.error_kind, list(stmt.message_parts), stmt.span)

        return self._prefixed(stmt, mutator, rewrite)

    def _let(self, let: E.Let, mutator: Any) -> ir.Expr:
        if let.var not in self._values or not _is_cell_of(self._values[let.var], self._prefix):
            self._put(let.var, mutator.mutate(let.value))
        return mutator.mutate(let.body)

    def _call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        chooses = isinstance(call.op, ir.Op) and call.op.name == IF_THEN_ELSE
        if not chooses or not any(visit.collect(side, E.Let) for side in call.args[1:]):
            return mutator.default_mutate(call)
        condition = mutator.mutate(call.args[0])
        result = _cell("chosen", call.ty)
        self._prefix.append(_declared(result))
        sides = []
        for side in call.args[1:]:
            with self._collecting() as inner:
                inner.append(_assigned(result, mutator.mutate(side)))
            sides.append(visit.sequence(inner))
        self._prefix.append(S.IfThenElse(condition, *sides))
        return _read(result, call.ty)

    def _put(self, var: ir.Var, value: ir.Expr) -> None:
        """Keep `value` in a cell that stands for `var` from here on."""
        cell = _cell(str(var.name), value.ty)
        self._prefix += [_declared(cell), _assigned(cell, value)]
        self._values[var] = _read(cell, value.ty)

    def _stays_bound(self, var: ir.Var, value: ir.Expr) -> bool:
        if not isinstance(var.ty, ir.PrimType) or str(var.ty.dtype) == "handle":
            return True
        if var in self._in_types:
            return True
        if str(var.ty.dtype) not in ("int32", "int64", "bool") or reads_memory(value):
            return False
        nodes = 0

        def count(node: Any) -> None:
            nonlocal nodes
            nodes += self._sizes.get(node, 1) if isinstance(node, ir.Var) else 1

        visit.walk(value, (ir.Expr, count))
        self._sizes[var] = nodes
        return nodes <= INDEX_SIZE


def _sizes(body: S.Stmt) -> set[ir.Var]:
    """The names in the types of buffers, which a pass cannot replace by a load."""
    stmts = [*visit.collect(body, S.AllocBuffer), *visit.collect(body, S.DeclBuffer)]
    types = [stmt.buffer.ty for stmt in stmts]
    return {var for ty in types for var in visit.collect(ty, ir.Var)}


def _is_cell_of(value: ir.Expr, prefix: list[S.Stmt]) -> bool:
    """Whether `value` is a cell that was declared for the statement at hand: an expression that occurs twice."""
    declared = [stmt.buffer for stmt in prefix if isinstance(stmt, S.AllocBuffer)]
    loaded = value.a if isinstance(value, E.NE) else value
    return isinstance(loaded, ir.TensorLoad) and any(loaded.source.same_as(buffer) for buffer in declared)


def _storage(ty: Any) -> str:
    """The dtype of a cell: TVM's analyzer has no form for vectors of bool, so bool is kept as int8."""
    dtype = str(ty.dtype)
    return f"int8{dtype.removeprefix('bool')}" if dtype.startswith("bool") else dtype


def _cell(name: str, ty: Any) -> ir.Var:
    return tirx.decl_buffer((1,), _storage(ty), name, layout=None)


def _declared(cell: ir.Var) -> S.Stmt:
    return S.AllocBuffer(cell, annotations={ON_STACK: E.IntImm("bool", 1)})


def _assigned(cell: ir.Var, value: ir.Expr) -> S.Stmt:
    storage = _storage(value.ty)
    stored = value if storage == str(value.ty.dtype) else E.Cast(storage, value)
    return S.BufferStore(cell, stored, [E.IntImm("int32", 0)])


def _read(cell: ir.Var, ty: Any) -> ir.Expr:
    loaded = tirx.BufferLoad(cell, [E.IntImm("int32", 0)])
    if _storage(ty) == str(ty.dtype):
        return loaded
    zero, lanes = E.IntImm("int8", 0), int(ty.dtype.lanes)
    return E.NE(loaded, zero if lanes == 1 else E.Broadcast(zero, lanes))
