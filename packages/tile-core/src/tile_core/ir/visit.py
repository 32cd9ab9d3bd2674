"""Walking and rewriting tile programs.

Thin names over `tvm_ffi.structural_walk/mutate`, whose typed callbacks run in C++ and enter Python only on the nodes asked
for. A mutator that rebuilds a statement passes `span` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi
from tvm.tirx import stmt as S


def walk(root: Any, *callbacks: tuple[Any, Callable[[Any], Any]]) -> None:
    """Call the first callback whose type matches, parents before children."""
    tvm_ffi.structural_walk(root, list(callbacks))


def mutate(root: Any, *callbacks: tuple[Any, Callable[[Any, Any], Any]]) -> Any:
    """Rewrite with callbacks `(node, mutator) -> node`; the callback owns its node's children."""
    return tvm_ffi.structural_mutate(root, list(callbacks))


def collect(root: Any, kind: Any) -> list[Any]:
    """Every node of `kind` under `root`, in program order."""
    found: list[Any] = []
    walk(root, (kind, found.append))
    return found


def statements(body: S.Stmt) -> Iterator[S.Stmt]:
    """Every statement under `body`, parents before children, in program order."""
    yield body
    for child in children(body):
        yield from statements(child)


def children(stmt: S.Stmt) -> tuple[S.Stmt, ...]:
    """The statements directly inside `stmt`."""
    if isinstance(stmt, S.SeqStmt):
        return tuple(stmt.seq)
    if isinstance(stmt, S.For | S.While | S.AttrStmt):
        return (stmt.body,)
    if isinstance(stmt, S.IfThenElse):
        return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
    return ()


def sequence(stmts: list[S.Stmt], span: Any = None) -> S.Stmt:
    """One statement for a list, flattened; an empty list is a no-op."""
    flat: list[S.Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.seq if isinstance(stmt, S.SeqStmt) else [stmt])
    if not flat:
        from tvm import tirx

        return S.Evaluate(tirx.IntImm("int32", 0), span)
    return flat[0] if len(flat) == 1 else S.SeqStmt(flat, span)
