"""What a block's threads do together, under conditions that not all of them meet.

A tile operation or `T.Parallel` is work of a whole block. Under a condition on the thread index that holds for
neighbouring whole warps it is work of those: the branch becomes their region (`ir/thread_groups.py`). Under any other
condition that differs between threads it has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.base import TileError
from tile_core.errors.interpreter import DivergentCollectiveError
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.launch import Launch
from tile_core.ir.spans import from_tvm
from tile_core.ir.thread_groups import ThreadGroup
from tile_core.ops.asynchronous import ASYNCHRONOUS_OPS
from tile_core.ops.base import op_name
from tile_core.ops.print import PRINT
from tile_core.ops.threads import ATOMIC_UPDATES, BLOCK_WIDE, WARP_WIDE, behind_addresses, exchanges

WARP = 32
_PRIVATE = (regions.LOCAL, regions.VAR)
_BY_EACH = frozenset({PRINT.name, *(op.name for op in ASYNCHRONOUS_OPS)})
"""Operations on tiles that each thread carries out, or one for all."""
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.And: lambda a, b: a and b,
    E.Or: lambda a, b: a or b,
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
}


def is_collective(body: S.Stmt) -> bool:
    """Whether threads work together somewhere under `body`."""
    return _first_collective(body) is not None


def _first_collective(body: S.Stmt) -> S.Stmt | None:
    for stmt in visit.statements(body):
        if isinstance(stmt, S.For) and stmt.kind == S.ForKind.PARALLEL:
            return stmt
        if isinstance(stmt, S.Evaluate) and _is_of_tiles(stmt):
            return stmt
    return None


def _is_of_tiles(stmt: S.Evaluate) -> bool:
    name = op_name(stmt)
    if name is None or name in _BY_EACH:
        return False
    touched = [argument for argument in stmt.value.args if isinstance(argument, ir.TensorRegion)]
    return any(regions.scope(region.source) not in _PRIVATE for region in touched)


def grouped(launch: Launch, refusal: type[TileError] = DivergentCollectiveError) -> Launch:
    """`launch` with a region for every branch of neighbouring whole warps that work together.

    Raises:
        TileError: of class `refusal`, where threads that are no such warps would work together.
    """
    return replace(launch, body=_Grouper(launch, refusal).stmt(launch.body, frozenset(range(launch.threads[0]))))


class ThreadConditions:
    """Which threads of a launch meet a condition."""

    def __init__(self, launch: Launch) -> None:
        self._thread = launch.thread_vars[0]
        self._is_flat = launch.threads[1:] == (1, 1)
        self._names = {bind.var: bind.value for bind in visit.collect(launch.body, S.Bind)}
        self._divergent: set[ir.Var] = set(launch.thread_vars)
        known = -1
        while len(self._divergent) != known:
            known = len(self._divergent)
            for stmt in visit.statements(launch.body):
                self._divergent.update(self._made_divergent(stmt))

    def _made_divergent(self, stmt: S.Stmt) -> list[ir.Var]:
        """Names, and variables of a thread, to which a statement gives values that differ between threads."""
        if isinstance(stmt, S.Bind):
            return [stmt.var] if self.differ(stmt.value) else []
        if isinstance(stmt, S.BufferStore):
            differs = any(map(self.differ, (stmt.value, *stmt.indices)))
            return [stmt.buffer] if differs and regions.scope(stmt.buffer) in _PRIVATE else []
        if isinstance(stmt, S.Evaluate):
            return [buffer for buffer in behind_addresses(stmt) if regions.scope(buffer) in _PRIVATE]
        if isinstance(stmt, S.IfThenElse | S.For | S.While) and any(map(self.differ, _heads(stmt))):
            stores = visit.collect(stmt, S.BufferStore)
            return [store.buffer for store in stores if regions.scope(store.buffer) in _PRIVATE]
        return []

    def differ(self, expr: ir.Expr) -> bool:
        """Whether threads may have different values for `expr`."""
        if exchanges(expr, BLOCK_WIDE):
            return False
        differing = any(var in self._divergent for var in visit.collect(expr, ir.Var))
        return differing or exchanges(expr, WARP_WIDE | ATOMIC_UPDATES)

    def chosen(self, condition: ir.Expr, active: frozenset[int]) -> frozenset[int] | None:
        """Those of `active` for which a condition on the thread index alone holds; `None` for any other condition."""
        if not self._is_flat:
            return None
        found = {thread: self._value(condition, thread) for thread in active}
        return None if None in found.values() else frozenset(thread for thread, value in found.items() if value)

    def _value(self, expr: ir.Expr, thread: int) -> Any:
        if isinstance(expr, E.IntImm):
            return int(expr.value)
        if isinstance(expr, ir.Var):
            if expr.same_as(self._thread):
                return thread
            return self._value(self._names[expr], thread) if expr in self._names else None
        if isinstance(expr, E.Not):
            inner = self._value(expr.a, thread)
            return None if inner is None else not inner
        if isinstance(expr, E.Cast):
            return self._value(expr.value, thread)
        operator = _OPERATORS.get(type(expr))
        if operator is None:
            return None
        sides = self._value(expr.a, thread), self._value(expr.b, thread)
        is_undefined = sides[1] == 0 and isinstance(expr, E.FloorDiv | E.FloorMod)
        return None if None in sides or is_undefined else operator(*sides)


class _Grouper:
    def __init__(self, launch: Launch, refusal: type[TileError]) -> None:
        self._conditions = ThreadConditions(launch)
        self._thread, self._threads = launch.thread_vars[0], launch.threads[0]
        self._refusal_class = refusal

    def stmt(self, stmt: S.Stmt, active: frozenset[int]) -> S.Stmt:
        if isinstance(stmt, S.SeqStmt):
            return visit.sequence([self.stmt(part, active) for part in stmt.seq], stmt.span)
        if isinstance(stmt, S.IfThenElse):
            return self._branch(stmt, active)
        if thread_groups.is_region(stmt):
            group = thread_groups.group_of(stmt)
            return self._region(group, stmt.body, active & frozenset(range(group.first, group.first + group.count)))
        if isinstance(stmt, S.For | S.While | S.AttrStmt):
            if any(map(self._conditions.differ, _heads(stmt))) and is_collective(stmt.body):
                raise self._refusal(stmt.body, "a loop whose bounds differ between threads")
            return _with_body(stmt, self.stmt(stmt.body, active))
        return stmt

    def _region(self, group: ThreadGroup, body: S.Stmt, active: frozenset[int]) -> S.Stmt:
        inner = self.stmt(body, active)
        if thread_groups.regions_in(inner):
            raise self._refusal(body, "a condition that holds for a part of a group of warps")
        return thread_groups.region(group, inner)

    def _branch(self, stmt: S.IfThenElse, active: frozenset[int]) -> S.Stmt:
        if not self._conditions.differ(stmt.condition):
            otherwise = None if stmt.else_case is None else self.stmt(stmt.else_case, active)
            return S.IfThenElse(stmt.condition, self.stmt(stmt.then_case, active), otherwise, stmt.span)
        if not is_collective(stmt):
            return stmt
        chosen = self._conditions.chosen(stmt.condition, active)
        if chosen is None:
            raise self._refusal(stmt, "a condition that differs between threads")
        parts = [self._side(stmt.then_case, chosen)]
        if stmt.else_case is not None:
            parts.append(self._side(stmt.else_case, active - chosen))
        return visit.sequence(parts, stmt.span)

    def _side(self, body: S.Stmt, threads: frozenset[int]) -> S.Stmt:
        """One side of a branch: a further branch, the region of its threads, or what each of them does."""
        if not threads:
            return visit.sequence([], body.span)
        if isinstance(body, S.IfThenElse) and self._conditions.differ(body.condition) and is_collective(body):
            return self._branch(body, threads)
        group = _as_group(threads)
        if group is not None:
            return self._region(group, body, threads)
        if is_collective(body):
            which = f"{len(threads)} of {self._threads} threads, which are no neighbouring whole warps"
            raise self._refusal(body, f"a condition that holds for {which}")
        return S.IfThenElse(_membership(self._thread, threads), body, None, body.span)

    def _refusal(self, body: S.Stmt, where: str) -> TileError:
        found = _first_collective(body)
        return self._refusal_class(
            f"a tile operation or T.Parallel stands under {where}",
            remedy="make it a condition on whole warps, as `if tx < 128:`, or work on elements inside of it",
            span=from_tvm(body.span if found is None else found.span),
        )


def _heads(stmt: Any) -> list[ir.Expr]:
    if isinstance(stmt, S.While | S.IfThenElse):
        return [stmt.condition]
    return [stmt.min, stmt.extent] if isinstance(stmt, S.For) else []


def _as_group(threads: frozenset[int]) -> ThreadGroup | None:
    first, count = min(threads), len(threads)
    is_whole = first % WARP == 0 and count % WARP == 0 and max(threads) - first + 1 == count
    return ThreadGroup(first, count) if is_whole else None


def _membership(thread: ir.Var, threads: frozenset[int]) -> ir.Expr:
    """Whether a thread is one of these, as runs of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in sorted(threads):
        runs = [*runs[:-1], (runs[-1][0], number)] if runs and number == runs[-1][1] + 1 else [*runs, (number, number)]
    tests = [E.And(E.GE(thread, E.IntImm("int32", low)), E.LE(thread, E.IntImm("int32", high))) for low, high in runs]
    whole = tests[0]
    for test in tests[1:]:
        whole = E.Or(whole, test)
    return whole


def _with_body(stmt: Any, body: S.Stmt) -> S.Stmt:
    if isinstance(stmt, S.While):
        return S.While(stmt.condition, body, stmt.span)
    if isinstance(stmt, S.AttrStmt):
        return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body, stmt.span)
    return S.For(
        stmt.loop_var,
        stmt.min,
        stmt.extent,
        S.ForKind(stmt.kind),
        body,
        stmt.thread_binding,
        stmt.annotations,
        stmt.step,
        span=stmt.span,
    )
