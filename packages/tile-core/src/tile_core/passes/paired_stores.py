"""Loops that store four-bit values, two iterations at a time: each then stores whole bytes, alone.

The iterations of a parallel nest, or of a vectorised loop, do not depend on each other. Where all four-bit elements
that an iteration stores lie along one loop variable, begin at even places and are stored whatever that variable is, two
neighbours run as one. Any other store has to leave the other half of its byte alone, whoever writes that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.nibbles import Parity, halved
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute, uses
from tile_core.passes.nests import ParallelNest, is_parallel, parallel_nest

MakePair = Callable[[S.BufferStore, S.BufferStore], S.Stmt]
"""One store of a byte for the stores of its low and its high half."""


@dataclass
class Pairing:
    """`is_packed` tells the buffers that are held two to a byte."""

    is_packed: Callable[[ir.Var], bool]
    parity: Parity
    make: MakePair

    def stores(self, body: S.Stmt) -> list[S.BufferStore]:
        """The stores of four-bit values under `body`."""
        return [store for store in visit.collect(body, S.BufferStore) if self.is_packed(store.buffer)]

    def paired(self, loop: S.For) -> S.Stmt | None:
        """The loop, or nest, that begins here, with pairs of iterations; `None` where a store would split a byte."""
        nest = parallel_nest(loop) if is_parallel(loop) else ParallelNest((loop,))
        stores = self.stores(nest.body)
        if nest.layout is not None or loop.step is not None or not self._is_straight(nest.body, nest.variables):
            return None
        at = next((n for n, var in enumerate(nest.variables) if all(self._moves(s, var) for s in stores)), None)
        if at is None or not self._allows(nest, at, stores):
            return None
        return self._rebuilt(nest, at)

    def _is_straight(self, body: S.Stmt, variables: Sequence[ir.Var]) -> bool:
        """Whether statements follow each other, or stand under conditions, and names are values."""
        if isinstance(body, S.SeqStmt | S.IfThenElse):
            return all(self._is_straight(child, variables) for child in visit.children(body))
        return isinstance(body, S.Bind | S.BufferStore | S.Evaluate)

    def _moves(self, store: S.BufferStore, var: ir.Var) -> bool:
        """Whether only the last index moves with `var`, by one, from an even one on."""
        *outer, last = store.indices
        if any(uses(index, (var,)) for index in outer):
            return False
        moved = constant(Analyzer().simplify(substitute(last, {var: var + 1}) - last))
        half = tirx.Var("half", var.ty)
        return moved == 1 and self.parity.is_even(Analyzer().simplify(substitute(last, {var: half * 2})))

    def _allows(self, nest: ParallelNest, at: int, stores: list[S.BufferStore]) -> bool:
        """Whether the loop has whole pairs, in which what is stored depends on no half, and is not read back."""
        loop = nest.loops[at]
        if not self.parity.is_even(loop.min) or not self.parity.is_even(loop.extent):
            return False
        conditions = [branch.condition for branch in visit.collect(nest.body, S.IfThenElse)]
        if any(uses(condition, (loop.loop_var, *self._names(nest.body))) for condition in conditions):
            return False
        return not any(self._is_read_later(nest.body, store) for store in stores)

    def _names(self, body: S.Stmt) -> list[ir.Var]:
        return [bind.var for bind in visit.collect(body, S.Bind)]

    def _is_read_later(self, body: S.Stmt, store: S.BufferStore) -> bool:
        """Whether a later statement reads the buffer, or this one reads it elsewhere."""
        seen = False
        for stmt in (node for node in visit.statements(body) if not visit.children(node)):
            loads = [load for load in visit.collect(stmt, ir.TensorLoad) if load.source.same_as(store.buffer)]
            if seen and loads:
                return True
            if stmt.same_as(store):
                seen = True
                if any(not tvm_ffi.structural_equal(list(load.indices), list(store.indices)) for load in loads):
                    return True
        return False

    def _rebuilt(self, nest: ParallelNest, at: int) -> S.Stmt:
        loop = nest.loops[at]
        half = tirx.Var(str(loop.loop_var.name), loop.loop_var.ty)
        body = _Pair(self, {loop.loop_var: half * 2}, {loop.loop_var: half * 2 + 1}).joined(nest.body)
        for position in reversed(range(len(nest.loops))):
            own = nest.loops[position]
            if position != at:
                body = rebuild.loop(own, body=body)
                continue
            bounds = {name: halved(getattr(own, name)) for name in ("min", "extent")}
            body = rebuild.loop(own, loop_var=half, body=body, **bounds)
        return body


@dataclass
class _Pair:
    """The values of names in the two iterations of a pair."""

    pairing: Pairing
    low: dict[ir.Var, ir.Expr]
    high: dict[ir.Var, ir.Expr] = field(default_factory=dict)

    def joined(self, stmt: S.Stmt) -> S.Stmt:
        """`stmt` for both iterations."""
        if isinstance(stmt, S.SeqStmt):
            return visit.sequence([self.joined(child) for child in stmt.seq], stmt.span)
        if isinstance(stmt, S.IfThenElse):
            otherwise = None if stmt.else_case is None else self.joined(stmt.else_case)
            return S.IfThenElse(stmt.condition, self.joined(stmt.then_case), otherwise, stmt.span)
        if isinstance(stmt, S.Bind):
            return visit.sequence([self._bind(stmt, values) for values in (self.low, self.high)])
        first, second = (_placed(stmt, values) for values in (self.low, self.high))
        if isinstance(stmt, S.BufferStore) and self.pairing.is_packed(stmt.buffer):
            return self.pairing.make(first, second)
        return visit.sequence([first, second], stmt.span)

    def _bind(self, stmt: S.Bind, values: dict[ir.Var, ir.Expr]) -> S.Stmt:
        name = tirx.Var(str(stmt.var.name), stmt.var.ty)
        bound = S.Bind(name, substitute(stmt.value, values), stmt.span)
        self.pairing.parity.bind(name, bound.value)
        values[stmt.var] = name
        return bound


def _placed(stmt: S.Stmt, values: dict[ir.Var, ir.Expr]) -> S.Stmt:
    placed: S.Stmt = substitute(stmt, values)
    return placed
