"""What makes the pipes of a core wait for each other.

The units of a core take their work from queues of their own, the pipes: the vector unit, which runs SIMT functions
(V), the engines that load (MTE2) and store (MTE3), the Cube unit (M), and the engines that bring its operands (MTE1)
and take its results (FIX). Nothing orders two pipes but events: one pipe notifies another, which waits. Work of one
pipe begins in order, but may begin before the last one has ended.

A forward walk keeps, for each pair of pipes, what the one has touched that the other does not know to be done. Work
that would touch the same bytes of a memory, or the same tensor, gets a wait before it. A loop is walked until
nothing changes: what an iteration leaves meets the next. Notice and wait stand together, so that each is met by the
other whatever way control flow takes.

An event is one of eight between two pipes, and stays in use until the pipe that notified knows, by an event in the
other direction, that the wait is over. Where none is left all pipes wait for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

from tvm import ir
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_ascend.passes.engine_copies import bytes_of_tile
from tile_ascend.steps import Access, Branch, Copy, Function, Instruction, Loop, Memory, Program, Step, Wait
from tile_core.ir import regions, visit
from tile_core.ir.regions import constant
from tile_core.passes.accesses import strides

V, MTE2, MTE3, ALL = "V", "MTE2", "MTE3", "ALL"
PIPES = (V, MTE2, MTE3, "MTE1", "M", "FIX")
EVENTS = 8
UNIFIED = "ub"
_Pair = tuple[str, str]
_T = TypeVar("_T")


@dataclass
class _State:
    """By pair of pipes: what the first has touched since the second last waited for it, and the events in use."""

    pending: dict[_Pair, frozenset[Access]] = field(default_factory=dict)
    events: dict[_Pair, frozenset[int]] = field(default_factory=dict)

    def __or__(self, other: _State) -> _State:
        return _State(_either(self.pending, other.pending), _either(self.events, other.events))


def _either(one: dict[_Pair, frozenset[_T]], other: dict[_Pair, frozenset[_T]]) -> dict[_Pair, frozenset[_T]]:
    return {pair: one.get(pair, frozenset()) | other.get(pair, frozenset()) for pair in {*one, *other}}


def with_waits(program: Program) -> list[Step]:
    """The steps of `program`, with waits where work of one pipe needs that of another."""
    return _Placer(program).steps(program.steps, _State())[0]


class _Placer:
    def __init__(self, program: Program) -> None:
        self._program = program

    def steps(self, steps: Sequence[Step], state: _State) -> tuple[list[Step], _State]:
        made: list[Step] = []
        for step in steps:
            placed, state = self._step(step, state)
            made += placed
        return made, state

    def _step(self, step: Step, state: _State) -> tuple[list[Step], _State]:
        if isinstance(step, Branch):
            then, after = self.steps(step.then, state)
            otherwise, other = self.steps(step.otherwise, state)
            return [Branch(step.stmt, then, otherwise)], after | other
        if isinstance(step, Loop):
            return self._loop(step, state)
        if not isinstance(step, Function | Copy | Instruction) or (isinstance(step, Instruction) and not step.touches):
            return [step], state
        pipe, accesses = self._work(step)
        waits, state = _waited(state, pipe, accesses)
        pending = dict(state.pending)
        for reader in PIPES:
            pending[pipe, reader] = pending.get((pipe, reader), frozenset()) | accesses
        return [*waits, step], _State(pending, state.events)

    def _loop(self, step: Loop, state: _State) -> tuple[list[Step], _State]:
        entry = state
        while True:
            body, end = self.steps(step.body, entry)
            joined = entry | end
            if joined == entry:
                return [Loop(step.stmt, body)], entry
            entry = joined

    def _work(self, step: Function | Copy | Instruction) -> tuple[str, frozenset[Access]]:
        """The pipe of a step, and what it touches."""
        if isinstance(step, Instruction):
            return step.pipe, step.touches
        if isinstance(step, Function):
            return V, frozenset(access for stmt in step.stmts for access in self._touched(stmt))
        first, last = self._bytes(step)
        tile, tensor = Access((UNIFIED, first, last), step.loads), Access(step.tensor.source, not step.loads)
        return (MTE2 if step.loads else MTE3), frozenset({tile, tensor})

    def _bytes(self, copy: Copy) -> tuple[int, int]:
        tile = copy.tile
        start = self._program.spans[tile.source][0]
        steps = zip(tile.indices, strides(tile.source), strict=True)
        flat = sum((constant(index) or 0) * (constant(step) or 0) for index, step in steps)
        first = start + flat * int(tile.source.dtype.bits) // 8
        return first, first + bytes_of_tile(copy.call)

    def _touched(self, stmt: S.Stmt) -> set[Access]:
        """Every buffer that a statement mentions counts as written where it might be."""
        roots = self._program.roots
        loaded = {roots.get(load.source, load.source) for load in visit.collect(stmt, ir.TensorLoad)}
        mentioned = {roots.get(var, var) for var in visit.collect(stmt, ir.Var) if is_buffer_var(var)}
        stored = {roots.get(store.buffer, store.buffer) for store in visit.collect(stmt, S.BufferStore)}
        called = {
            roots.get(load.source, load.source)
            for call in visit.collect(stmt, ir.Call)
            if str(getattr(call.op, "name", "")) == "tirx.address_of"
            for load in visit.collect(call, ir.TensorLoad)
        }
        written = stored | called | (mentioned - loaded)
        return {Access(memory, var in written) for var in mentioned if (memory := self._memory(var)) is not None}

    def _memory(self, var: ir.Var) -> Memory | None:
        if regions.scope(var) == regions.GLOBAL:
            return var
        span = self._program.spans.get(var)
        return None if span is None else (UNIFIED, *span)


def _waited(state: _State, pipe: str, accesses: frozenset[Access]) -> tuple[list[Step], _State]:
    """The waits of `pipe` before it does work that touches `accesses`; for itself last, since others may know of it."""
    waits: list[Step] = []
    for before in sorted(PIPES, key=pipe.__eq__):
        earlier = state.pending.get((before, pipe), frozenset())
        if not any(one.conflicts(other) for one, other in product(earlier, accesses)):
            continue
        free = [event for event in range(EVENTS) if event not in state.events.get((before, pipe), ())]
        if before != pipe and not free:
            return [Wait(ALL, ALL)], _State()
        waits.append(Wait(before, pipe, 0 if before == pipe else free[0]))
        state = _after(state, before, pipe, free[0] if free else 0)
    return waits, state


def _after(state: _State, before: str, pipe: str, event: int) -> _State:
    """Behind the wait, `pipe` knows of its own work and that of others what `before` knew."""
    pending, events = dict(state.pending), dict(state.events)
    for other in PIPES:
        known_by = frozenset[Access]() if other == before else pending.get((other, before), frozenset())
        pending[other, pipe] = pending.get((other, pipe), frozenset()) & known_by
    if before != pipe:
        events[before, pipe] = events.get((before, pipe), frozenset()) | {event}
        events[pipe, before] = frozenset()
    return _State(pending, events)
