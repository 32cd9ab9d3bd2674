"""Walking and rewriting tile programs.

Thin names over `tvm_ffi.structural_walk/mutate`, whose typed callbacks run in C++ and enter Python only on the
nodes asked for. A mutator that rebuilds a statement passes `span` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import tvm_ffi
from tvm.tirx import stmt as S


class _Carrier:
    """Takes a callback's exception past TVM's C++ frames, which would turn it into a `RuntimeError`."""

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    def unary(self, callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda node: self._run(callback, node)

    def binary(self, callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda node, mutator: self._run(callback, node, mutator)

    def _run(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return callback(*arguments)
        except BaseException as error:
            self._raised = self._raised or error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and self._raised is not None and error is not self._raised:
            raise self._raised from None


def walk(root: Any, *callbacks: tuple[Any, Callable[[Any], Any]]) -> None:
    """Call the first callback whose type matches, parents before children."""
    with _Carrier() as carrier:
        tvm_ffi.structural_walk(root, [(kind, carrier.unary(call)) for kind, call in callbacks], order="pre")


def mutate(root: Any, *callbacks: tuple[Any, Callable[[Any, Any], Any]]) -> Any:
    """Rewrite with callbacks `(node, mutator) -> node`; the callback owns its node's children."""
    with _Carrier() as carrier:
        return tvm_ffi.structural_mutate(root, [(kind, carrier.binary(call)) for kind, call in callbacks])


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
