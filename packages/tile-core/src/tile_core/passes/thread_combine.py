"""Combine one value of each thread of a group, so that each of them has the result.

Threads of a group that lie side by side in one warp exchange by shuffles. Any other group (a count that is no power of
two, several warps) goes through shared memory; where it is made of whole warps, one value a warp. Nothing is assumed of
the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import visit
from tile_core.ops.build import Cell
from tile_core.passes.thread_scope import ThreadScope, int32, phase, shuffle_xor

Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]
FEW = 8
"""Values of warps that every thread reads."""


@dataclass(frozen=True)
class ThreadGroup:
    """`count` threads that lie `stride` apart; of the block, the first `used` threads belong to groups."""

    count: int
    stride: int
    used: int

    def is_within(self, warp: int) -> bool:
        """Whether its threads lie in one warp of so many, where they can exchange by shuffles."""
        return self.count * self.stride <= warp and _is_power(self.count) and _is_power(self.stride)


@dataclass(frozen=True)
class Combination:
    """What is combined: a variable of each thread, of dtype `dtype` (TVM's spelling), and how."""

    scope: ThreadScope
    cell: Cell
    dtype: str
    combine: Combine
    identity: ir.Expr
    span: Any = None

    def over(self, group: ThreadGroup) -> list[S.Stmt]:
        """The statements after which `cell` holds the result in every thread of the group."""
        count, warp = group.count, self.scope.warp
        if count == 1:
            return []
        if group.is_within(warp):
            return self._shuffles(count, group.stride)
        if group.stride == 1 and count % warp == 0:
            return [*self._shuffles(warp, 1), *self._across_warps(group)]
        return self._through_memory(group)

    def _update(self, value: ir.Expr) -> S.Stmt:
        return self.cell.set(self.combine(self.cell.get(), value), self.span)

    def _shuffles(self, count: int, stride: int) -> list[S.Stmt]:
        found: list[S.Stmt] = []
        distance = count // 2 * stride
        while distance >= stride:
            found += self._exchange(distance)
            distance //= 2
        return found

    def _exchange(self, distance: int) -> list[S.Stmt]:
        """Combine with the value of another lane. Every lane asks for it: `||` and `&&` would leave some out."""
        value = shuffle_xor(self.cell.get(), distance, self.scope.block)
        if self.dtype != "bool":
            return [self._update(value)]
        other = Cell.new("other", as_dtype(self.dtype))
        return [other.declare(self.span), other.set(value, self.span), self._update(other.get())]

    def _across_warps(self, group: ThreadGroup) -> list[S.Stmt]:
        """The first lane of each warp leaves the warp's value; every thread combines those of its group, in order."""
        thread, warp = self.scope.thread, self.scope.warp
        workspace = self.scope.workspace("reduce", self.dtype, -(-self.scope.block // warp))
        is_first = E.EQ(tirx.floormod(thread, int32(warp)), int32(0))
        leave = S.BufferStore(workspace, self.cell.get(), [tirx.floordiv(thread, int32(warp))], self.span)
        first: ir.Expr = int32(0)
        if group.count < group.used:
            first = tirx.floordiv(thread, int32(group.count)) * (group.count // warp)
        reading, exchange = self._members(workspace, first, group.count // warp)
        if group.used < self.scope.block:
            reading = S.IfThenElse(E.LT(thread, int32(group.used)), reading, None, self.span)
        return [phase(S.IfThenElse(is_first, leave, None, self.span)), phase(reading), *exchange]

    def _members(self, workspace: ir.Var, first: ir.Expr, count: int) -> tuple[S.Stmt, list[S.Stmt]]:
        """What a thread reads of the `count` values from `first` on, and the exchanges after it.

        Few values are read by every thread. Many would be as many registers, while all else is alive: a lane reads one.
        """
        if count > FEW and _is_power(count) and count <= self.scope.warp:
            own = first + tirx.floormod(self.scope.thread, int32(count))
            return self.cell.set(tirx.BufferLoad(workspace, [own]), self.span), self._shuffles(count, 1)
        start = self.cell.set(tirx.BufferLoad(workspace, [first]), self.span)
        member = tirx.Var("member", "int32")
        value = self._update(tirx.BufferLoad(workspace, [first + member]))
        rest = S.For(member, int32(1), int32(count - 1), S.ForKind.UNROLLED, value, span=self.span)
        return visit.sequence([start, rest]) if count > 1 else start, []

    def _through_memory(self, group: ThreadGroup) -> list[S.Stmt]:
        """Every thread leaves its value in shared memory and reads those of its group's members.

        The thread of a member with the same remainder stands for it.
        """
        thread = self.scope.thread
        workspace = self.scope.workspace("reduce", self.dtype, self.scope.block)
        member = tirx.Var("member", "int32")
        digit = tirx.floormod(tirx.floordiv(thread, int32(group.stride)), int32(group.count))
        first = thread - digit * group.stride
        value = tirx.BufferLoad(workspace, [first + member * group.stride])
        gather = S.For(member, int32(0), int32(group.count), S.ForKind.SERIAL, self._update(value), span=self.span)
        reading = visit.sequence([self.cell.set(self.identity, self.span), gather])
        if group.used < self.scope.block:
            reading = S.IfThenElse(E.LT(thread, int32(group.used)), reading, None, self.span)
        return [phase(S.BufferStore(workspace, self.cell.get(), [thread], self.span)), phase(reading)]


def _is_power(value: int) -> bool:
    return value & (value - 1) == 0
