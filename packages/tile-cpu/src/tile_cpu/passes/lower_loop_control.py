"""Write loops with `break` and `continue` without them: TVM's code generator for LLVM has neither.

A loop that contains one of its own becomes a `while` over a counter and a state, 0 while an iteration runs, 1 after
`continue`, 2 after `break`. Whatever may follow a `break` or `continue` is guarded by state 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import IF_THEN_ELSE

RUNNING, CONTINUED, BROKEN = range(3)


@dataclass(frozen=True)
class LowerLoopControl:
    """See the module's docstring."""

    name: ClassVar[str] = "lower_loop_control"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, ((S.For, S.While), _loop))


def _loop(loop: Any, mutator: Any) -> S.Stmt:
    body = mutator.mutate(loop.body)
    if not _exits(body):
        return mutator.default_mutate(loop)
    state = _Cell("state", "int32")
    start: list[S.Stmt] = [state.declare(), state.set(state.number(RUNNING))]
    guarded = _guarded(body, state)
    go_on = state.differs(BROKEN)
    again = S.IfThenElse(state.equals(CONTINUED), state.set(state.number(RUNNING)), None)
    if isinstance(loop, S.While):
        condition = _both(go_on, mutator.mutate(loop.condition))
        return visit.sequence([*start, S.While(condition, visit.sequence([guarded, again]), loop.span)], loop.span)
    low, extent = mutator.mutate(loop.min), mutator.mutate(loop.extent)
    counter = _Cell("counter", str(loop.loop_var.ty.dtype))
    end = tirx.Var("end", loop.loop_var.ty)
    step = counter.number(1) if loop.step is None else loop.step
    start += [counter.declare(), counter.set(low), S.Bind(end, low + extent)]
    inner = [S.Bind(loop.loop_var, counter.get()), guarded, again, counter.set(counter.get() + step)]
    condition = E.And(go_on, E.LT(counter.get(), end))
    return visit.sequence([*start, S.While(condition, visit.sequence(inner), loop.span)], loop.span)


@dataclass(frozen=True)
class _Cell:
    """A scalar variable."""

    buffer: ir.Var
    dtype: str

    def __init__(self, name: str, dtype: str) -> None:
        object.__setattr__(self, "buffer", tirx.decl_buffer((1,), dtype, name, scope=regions.VAR, layout=None))
        object.__setattr__(self, "dtype", dtype)

    def declare(self) -> S.Stmt:
        return S.AllocBuffer(self.buffer)

    def number(self, value: int) -> ir.Expr:
        return E.IntImm(self.dtype, value)

    def get(self) -> ir.Expr:
        return tirx.BufferLoad(self.buffer, [E.IntImm("int32", 0)])

    def set(self, value: ir.Expr) -> S.Stmt:
        return S.BufferStore(self.buffer, value, [E.IntImm("int32", 0)])

    def equals(self, value: int) -> ir.Expr:
        return E.EQ(self.get(), self.number(value))

    def differs(self, value: int) -> ir.Expr:
        return E.NE(self.get(), self.number(value))


def _both(first: ir.Expr, second: ir.Expr) -> ir.Expr:
    """`first and second`, with `second` evaluated only if it counts."""
    return ir.Call(ir.Op.get(IF_THEN_ELSE), [first, second, E.IntImm("bool", 0)], ret_ty="bool")


def _exits(stmt: S.Stmt) -> bool:
    """Whether a `break` or `continue` of the enclosing loop stands in `stmt`."""
    if isinstance(stmt, S.Break | S.Continue):
        return True
    if isinstance(stmt, S.For | S.While):
        return False
    return any(_exits(child) for child in visit.children(stmt))


def _guarded(stmt: S.Stmt, state: _Cell) -> S.Stmt:
    """`stmt` with exits turned into assignments of the state, and nothing done after one."""
    if isinstance(stmt, S.Break | S.Continue):
        return state.set(state.number(BROKEN if isinstance(stmt, S.Break) else CONTINUED))
    if not _exits(stmt):
        return stmt
    if isinstance(stmt, S.SeqStmt):
        return _guarded_sequence(list(stmt.seq), state, stmt.span)
    if isinstance(stmt, S.IfThenElse):
        otherwise = None if stmt.else_case is None else _guarded(stmt.else_case, state)
        return S.IfThenElse(stmt.condition, _guarded(stmt.then_case, state), otherwise, stmt.span)
    assert isinstance(stmt, S.AttrStmt)
    return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, _guarded(stmt.body, state), stmt.span)


def _guarded_sequence(stmts: list[S.Stmt], state: _Cell, span: Any) -> S.Stmt:
    for at, stmt in enumerate(stmts):
        if _exits(stmt):
            done = [*stmts[:at], _guarded(stmt, state)]
            rest = stmts[at + 1 :]
            if rest:
                done.append(S.IfThenElse(state.equals(RUNNING), _guarded(visit.sequence(rest), state), None))
            return visit.sequence(done, span)
    return visit.sequence(stmts, span)
