"""Take the memory of large tiles from what the last call left (`pool/pool.ll`), not from TVM's runtime.

TVM allocates and frees a workspace wherever a function needs one, which for large ones means new pages from the
system, each of them zeroed, in every call.

It frees at the end of the scope, which a function that returns never reaches: memory is given back in front of every
way out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.base import PassContext

TAKE, GIVE = "tile_take_memory", "tile_give_memory"
"""The functions of `split_host` that stand instead of TVM's."""

_TAKE = "TVMBackendAllocWorkspace"
_GIVE = "TVMBackendFreeWorkspace"


@dataclass(frozen=True)
class KeepMemory:
    """See the module's docstring. Runs after TVM made its calls; `split_host` defines those that stand instead."""

    name: ClassVar[str] = "keep_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        del context
        ways_out = _WaysOut()
        body = visit.mutate(
            func.body,
            (ir.Call, _call),
            (S.SeqStmt, ways_out.sequence),
            (S.Return, ways_out.leave),
            (S.AssertStmt, ways_out.fail),
        )
        return func.with_body(body, func.span)


class _WaysOut:
    """Gives back what the scopes around a statement took, where the statement leaves the function."""

    def __init__(self) -> None:
        self._taken: list[ir.Var] = []

    def sequence(self, stmt: S.SeqStmt, mutator: Any) -> S.Stmt:
        """Note what is taken; nothing runs behind a `Return`."""
        outside, steps = len(self._taken), []
        for step in stmt.seq:
            steps.append(mutator.mutate(step))
            if isinstance(step, S.Return):
                break
            if isinstance(step, S.DeclBuffer) and _named(step.data) == _TAKE:
                self._taken.append(step.buffer)
        del self._taken[outside:]
        return visit.sequence(steps, stmt.span)

    def leave(self, stmt: S.Return, mutator: Any) -> S.Stmt:
        """A `Return`, with nothing kept."""
        return visit.sequence([*self._given(), mutator.default_mutate(stmt)], stmt.span)

    def fail(self, stmt: S.AssertStmt, mutator: Any) -> S.Stmt:
        """An assertion, which returns to the caller if it fails."""
        stmt = mutator.default_mutate(stmt)
        given = self._given()
        if not given:
            return stmt
        failed = S.IfThenElse(tirx.Not(stmt.condition), visit.sequence(given), None, stmt.span)
        return visit.sequence([failed, stmt], stmt.span)

    def _given(self) -> list[S.Stmt]:
        return [S.Evaluate(tirx.call_extern("int32", GIVE, taken.data)) for taken in reversed(self._taken)]


def _named(expr: Any) -> str:
    op = getattr(expr, "op", None)
    return str(op.name).rpartition(".")[2] if isinstance(op, ir.Op) else ""


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    if _named(call) == _TAKE:
        _device_type, _device, size, *_element = call.args
        return tirx.call_extern(call.ty, TAKE, tirx.Cast("int64", size))
    if _named(call) == _GIVE:
        _device_type, _device, memory = call.args
        return tirx.call_extern("int32", GIVE, memory)
    return call
