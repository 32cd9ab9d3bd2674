"""Walking and rewriting tile programs.

Thin names over `tvm_ffi.structural_walk/mutate`, whose typed callbacks run in C++ and enter Python only on the
nodes asked for. A mutator that rebuilds a statement passes `span` on.

A pipeline walks some thousand times, mostly over little, so the C++ functions are called directly: `structural_walk`
would look up the kinds of nodes each time, `structural_mutate` the parameters of every callback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import tvm_ffi
from tvm.tirx import stmt as S
from tvm_ffi.core import TypeSchema

from tile_core.errors.base import SourceSpan, TileError
from tile_core.ir.spans import from_tvm

_WALK, _MUTATE = (tvm_ffi.get_global_func(f"ffi.Structural{name}") for name in ("Walk", "Mutate"))
_PARENTS_FIRST = int(tvm_ffi.WalkOrder.PREORDER)
Callback = tuple[Any, Callable[[Any, Any], Any]]
_STATEMENTS = (
    S.AllocBuffer,
    S.AssertStmt,
    S.AttrStmt,
    S.Bind,
    S.BufferStore,
    S.DeclBuffer,
    S.Evaluate,
    S.For,
    S.IfThenElse,
    S.While,
)


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
        calls = [(kind, carrier.unary(call)) for kind, call in callbacks]
        _WALK(root, [(number, call) for kind, call in calls for number in _numbers(kind)], [], _PARENTS_FIRST)


@functools.cache
def _numbers(kind: Any) -> tuple[int, ...]:
    """The kinds of nodes of a callback by the numbers that C++ has for them."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return tuple(int(TypeSchema.from_annotation(one).origin_type_index) for one in kinds)


def mutate(root: Any, *callbacks: Callback) -> Any:
    """Rewrite with callbacks `(node, mutator) -> node`; the callback owns its node's children.

    A coded error that a callback raises without a place gets that of the statement around it.
    """
    try:
        return _mutate(root, callbacks)
    except TileError as error:
        if error.span is None:
            error.span = _statement_of(error, root, callbacks)
        raise


def _mutate(root: Any, callbacks: Sequence[Callback]) -> Any:
    with _Carrier() as carrier:
        calls = [(kind, carrier.binary(call)) for kind, call in callbacks]
        return _MUTATE(root, [(number, call, False) for kind, call in calls for number in _numbers(kind)])


def _statement_of(error: TileError, root: Any, callbacks: Sequence[Callback]) -> SourceSpan | None:
    """The place of the innermost statement at which `error` is raised, found by failing once more.

    Only this second walk looks at every statement, so that rewriting does not pay for it.
    """
    open_spans: list[Any] = []

    def noting(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def noted(node: Any, mutator: Any) -> Any:
            span = node.span if isinstance(node, S.Stmt) else None
            open_spans.extend([span] if span is not None else [])
            result = call(node, mutator)
            del open_spans[len(open_spans) - (span is not None) :]
            return result

        return noted

    every = [*callbacks, (_STATEMENTS, lambda node, mutator: mutator.default_mutate(node))]
    try:
        _mutate(root, [(kind, noting(call)) for kind, call in every])
    except TileError as again:
        if type(again) is type(error) and again.message == error.message and open_spans:
            return from_tvm(open_spans[-1])
    return None


def collect(root: Any, kind: Any) -> list[Any]:
    """Every node of `kind` under `root`, in program order."""
    found: list[Any] = []
    _WALK(root, [(number, found.append) for number in _numbers(kind)], [], _PARENTS_FIRST)
    return found


def statements(body: S.Stmt) -> Iterator[S.Stmt]:
    """Every statement under `body`, parents before children, in program order."""
    ahead = [body]
    while ahead:
        stmt = ahead.pop()
        yield stmt
        ahead.extend(reversed(children(stmt)))


def children(stmt: S.Stmt) -> tuple[S.Stmt, ...]:
    """The statements directly inside `stmt`."""
    found = _CHILDREN.get(type(stmt))
    return () if found is None else found(stmt)


def _branches(stmt: S.IfThenElse) -> tuple[S.Stmt, ...]:
    return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)


def _body(stmt: S.For | S.While | S.AttrStmt) -> tuple[S.Stmt, ...]:
    return (stmt.body,)


_CHILDREN: Mapping[type, Callable[[Any], tuple[S.Stmt, ...]]] = {
    S.SeqStmt: lambda stmt: tuple(stmt.seq),
    S.For: _body,
    S.While: _body,
    S.AttrStmt: _body,
    S.IfThenElse: _branches,
}
"""By class: `isinstance` of TVM's nodes is answered in Python where the class is another one."""


def sequence(stmts: list[S.Stmt], span: Any = None) -> S.Stmt:
    """One statement for a list, flattened; an empty list is a no-op."""
    flat: list[S.Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.seq if isinstance(stmt, S.SeqStmt) else [stmt])
    if not flat:
        from tvm import tirx

        return S.Evaluate(tirx.IntImm("int32", 0), span)
    return flat[0] if len(flat) == 1 else S.SeqStmt(flat, span)
