"""The program of the thread that copies ahead: the launch's control flow with nothing in it but the copies.

It is cut out of the block's program, so it makes the same iterations and takes the same branches. Whatever it needs
must be a function of the block's indices, the kernel's parameters, loop counters and tensors that the kernel writes
nowhere (tables of pages, lengths): memory that the kernel writes is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.accesses import uses


def producer_program(
    body: S.Stmt,
    replacements: Mapping[S.Stmt, Callable[[Any], S.Stmt]],
    readable: frozenset[ir.Var],
    threads: frozenset[ir.Var],
) -> S.Stmt | None:
    """The control flow of `body` around the statements of `replacements`, each replaced by what the thread does.

    `readable` are the counters of the copying thread and the tensors that nothing writes. `None` where a bound, a
    condition or an index reads other memory, or depends on which of the block's `threads` asks. The program shares
    variables with `body`.
    """
    cut = _cut(body, replacements)
    if cut is None:
        return None
    program = _without_unused(cut)
    return None if uses(program, tuple(threads)) or _reads_memory(program, readable) else program


def _cut(stmt: S.Stmt, replacements: Mapping[S.Stmt, Callable[[Any], S.Stmt]]) -> S.Stmt | None:
    for original, make in replacements.items():
        if stmt.same_as(original):
            return make(original)
    if isinstance(stmt, S.Bind):
        return stmt
    if isinstance(stmt, S.SeqStmt):
        parts = [part for part in (_cut(child, replacements) for child in stmt.seq) if part is not None]
        return visit.sequence(parts, stmt.span) if parts else None
    if isinstance(stmt, S.For):
        body = _cut(stmt.body, replacements)
        return None if body is None or _is_only_names(body) else rebuild.loop(stmt, body=body)
    if isinstance(stmt, S.IfThenElse):
        then = _cut(stmt.then_case, replacements)
        otherwise = None if stmt.else_case is None else _cut(stmt.else_case, replacements)
        kept = [part for part in (then, otherwise) if part is not None and not _is_only_names(part)]
        if not kept:
            return None
        return S.IfThenElse(stmt.condition, then or visit.sequence([]), otherwise, stmt.span)
    return _cut(stmt.body, replacements) if isinstance(stmt, S.AttrStmt) else None


def _is_only_names(stmt: S.Stmt) -> bool:
    return all(isinstance(part, S.Bind | S.SeqStmt) for part in visit.statements(stmt))


def _without_unused(program: S.Stmt) -> S.Stmt:
    """Without the names that nothing uses."""
    while True:
        binds = visit.collect(program, S.Bind)
        read = {var for bind in binds for var in visit.collect(bind.value, ir.Var)}
        read |= {var for stmt in visit.statements(program) for expr in _expressions(stmt) for var in _variables(expr)}
        unused = {bind.var for bind in binds} - read
        if not unused:
            return program
        program = _without(program, unused)


def _without(program: S.Stmt, unused: set[ir.Var]) -> S.Stmt:
    def drop(bind: S.Bind, _mutator: object) -> S.Stmt:
        return visit.sequence([]) if bind.var in unused else bind

    return visit.mutate(program, (S.Bind, drop))


def _expressions(stmt: S.Stmt) -> list[ir.Expr]:
    if isinstance(stmt, S.For):
        return [stmt.min, stmt.extent]
    if isinstance(stmt, S.IfThenElse):
        return [stmt.condition]
    if isinstance(stmt, S.Evaluate):
        return [stmt.value]
    return [stmt.value, *stmt.indices] if isinstance(stmt, S.BufferStore) else []


def _variables(expr: ir.Expr) -> list[ir.Var]:
    return visit.collect(expr, ir.Var)


def _reads_memory(program: S.Stmt, readable: frozenset[ir.Var]) -> bool:
    """Whether any name, bound, condition or index does something or loads from anything else than `readable`."""
    for stmt in visit.statements(program):
        exprs = [stmt.value] if isinstance(stmt, S.Bind) else _expressions(stmt)
        if any(_loads(expr, readable) for expr in exprs):
            return True
        if not isinstance(stmt, S.Evaluate) and any(_does_something(expr) for expr in exprs):
            return True
    return False


def _does_something(expr: ir.Expr) -> bool:
    """Whether a value is computed by an op of the language or from an address: it may have an effect, made once."""
    names = [str(call.op.name) for call in visit.collect(expr, ir.Call) if isinstance(call.op, ir.Op)]
    return any(name.startswith(("tile.", "tirx.call_")) or name == "tirx.address_of" for name in names)


def _loads(expr: ir.Expr, readable: frozenset[ir.Var]) -> bool:
    found = False

    def call(node: ir.Call, mutator: object) -> ir.Expr:
        is_address = isinstance(node.op, ir.Op) and str(node.op.name) == "tirx.address_of"
        if is_address:
            for index in node.args[0].indices:
                mutator.mutate(index)  # type: ignore[attr-defined]
            return node
        return mutator.default_mutate(node)  # type: ignore[attr-defined]

    def load(node: ir.TensorLoad, _mutator: object) -> ir.Expr:
        nonlocal found
        found = found or node.source not in readable
        return node

    visit.mutate(expr, (ir.Call, call), (ir.TensorLoad, load))
    return found
