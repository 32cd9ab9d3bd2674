"""Barriers with phases, and what is signalled to them.

A barrier's word holds, from the lowest bit on: the parity of the running phase (1 bit), the arrivals that a phase
takes and those missing (20 bits each), and the bytes missing (22 bits, signed). A copy is made when it is issued, which
is one of the times at which it may be made; its bytes count as there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.tirx import stmt as S

from tile_core.errors.interpreter import BarrierMisuseError
from tile_core.interpreter.crew import REMEDY, Crew
from tile_core.interpreter.regions import compile_region
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor, Signal
from tile_core.interpreter.space import UNIFORM
from tile_core.interpreter.state import State
from tile_core.interpreter.values import no_meaning
from tile_core.ir import thread_groups
from tile_core.ops.asynchronous import (
    ASYNCHRONOUS_OPS,
    BARRIER_ARRIVE,
    BARRIER_ARRIVE_AT,
    BARRIER_ARRIVE_COPIES,
    BARRIER_ARRIVE_PRODUCTS,
    BARRIER_EXPECT,
    BARRIER_WAIT,
    BULK_LOAD,
    BULK_SEND,
    BULK_STORE,
)
from tile_core.ops.base import OpCall
from tile_core.ops.copy import COPY

_MOST = (1 << 20) - 1
_BYTES = 1 << 21


@dataclass
class Phase:
    """The state of a barrier."""

    parity: int
    count: int
    missing: int
    bytes: int

    @classmethod
    def of(cls, word: int) -> Phase:
        """From a barrier's word."""
        return cls(word & 1, word >> 1 & _MOST, word >> 21 & _MOST, (word >> 41 & (2 * _BYTES - 1)) - _BYTES)

    @property
    def word(self) -> int:
        """The barrier's word."""
        return self.parity | self.count << 1 | self.missing << 21 | (self.bytes + _BYTES) << 41

    def end_if_complete(self) -> None:
        """The next phase begins when nothing is missing."""
        if self.missing == 0 and self.bytes == 0:
            self.parity, self.missing = 1 - self.parity, self.count


def initial_words(counts: Sequence[int]) -> list[int]:
    """The words of new barriers."""
    return [Phase(0, int(count), int(count), 0).word for count in counts]


def is_asynchronous(call: OpCall) -> bool:
    """Whether an op is compiled here."""
    return call.op in ASYNCHRONOUS_OPS


def compile_asynchronous(call: OpCall, scope: Scope, compile_op: Callable[[OpCall, Scope], Executor]) -> Executor:
    """The function that carries out an op of `ops/asynchronous.py`; `compile_op` is for the copies in them.

    Raises:
        NoReferenceMeaningError: inside of `T.Parallel`, whose iterations are no threads.
    """
    if scope.parallel:
        raise no_meaning(f"{call.op.name.removeprefix('tile.')} inside of T.Parallel", scope.span)
    if call.op in (BARRIER_ARRIVE_AT, BULK_SEND) or "mask" in call.attrs:
        raise no_meaning(
            "what a block does in another one of its cluster, since blocks run one after the other", scope.span
        )
    if call.op in (BULK_LOAD, BULK_STORE):
        sides = {side: call.args[side] for side in ("src", "dst")}
        inner = replace(scope, vector=False, threads=False, collective=scope.collective or scope.threads)
        return _by_one(compile_op(COPY.call(sides, span=call.span), inner))
    if "barrier" not in call.args:
        return lambda state: None
    change = {
        BARRIER_ARRIVE: _arrive,
        BARRIER_ARRIVE_COPIES: _arrive,
        BARRIER_ARRIVE_PRODUCTS: _arrive_once,
        BARRIER_EXPECT: _expect,
        BARRIER_WAIT: _wait,
    }[call.op]
    value = next((scope.expr(call.args[name]) for name in ("count", "parity") if name in call.args), None)
    inner = replace(scope, vector=False, threads=False, collective=scope.collective or scope.threads)
    place = compile_region(call.args["barrier"], inner)
    name, span = str(call.region("barrier").source.name), scope.span

    def run(state: State) -> None:
        found = place(state)
        change(_Barrier(found, name, scope, span), state, 0 if value is None else int(_one(value(state))))

    return run


def _by_one(run: Executor) -> Executor:
    """What one of the threads that come by does."""

    def once(state: State) -> Signal | None:
        space, mask = state.space, state.mask
        if mask is not None and not mask.any():
            return None
        state.space, state.mask = UNIFORM, None
        try:
            return run(state)
        finally:
            state.space, state.mask = space, mask

    return once


def _one(value: Any) -> Any:
    return value if not hasattr(value, "reshape") else value.reshape(-1)[0]


class _Barrier:
    """One barrier at one moment, with what is needed to report on it."""

    def __init__(self, place: Any, name: str, scope: Scope, span: Any) -> None:
        self._place, self.name, self.scope, self.span = place, name, scope, span

    @property
    def phase(self) -> Phase:
        return Phase.of(int(self._place.values.reshape(-1)[0]))

    def set(self, phase: Phase) -> None:
        self._place.values.reshape(-1)[0] = phase.word
        self._place.write_back()

    def threads(self, state: State) -> int:
        """How many threads come by."""
        if state.space.threads:
            return state.space.size if state.mask is None else int(state.mask.sum())
        return self.scope.workers

    def misused(self, what: str) -> BarrierMisuseError:
        return BarrierMisuseError(f"{self.name}: {what}", remedy=REMEDY, span=self.span)


def _arrive(barrier: _Barrier, state: State, _value: int) -> None:
    _count(barrier, barrier.threads(state))


def _arrive_once(barrier: _Barrier, state: State, _value: int) -> None:
    """Products are done when they are issued."""
    _count(barrier, min(1, barrier.threads(state)))


def _count(barrier: _Barrier, count: int) -> None:
    phase = barrier.phase
    while count:
        if phase.missing == 0:
            raise barrier.misused(f"an arrival more than the {phase.count} that a phase takes")
        now = min(count, phase.missing)
        phase.missing, count = phase.missing - now, count - now
        phase.end_if_complete()
    barrier.set(phase)


def _expect(barrier: _Barrier, state: State, value: int) -> None:
    phase = barrier.phase
    phase.bytes += value * barrier.threads(state)
    barrier.set(phase)


def _wait(barrier: _Barrier, state: State, value: int) -> None:
    parity = value & 1

    def is_over() -> bool:
        return barrier.phase.parity != parity

    if is_over():
        return
    phase = barrier.phase
    what = (
        f"the phase of parity {parity} of {barrier.name} misses {phase.missing} of {phase.count} arrivals "
        f"and {phase.bytes} bytes"
    )
    if state.crew is None:
        raise barrier.misused(f"{what}, and nothing else runs")
    state.crew.wait(is_over, what, barrier.span)


def compile_groups(stmts: Sequence[S.AttrStmt], scope: Scope) -> Executor:
    """The function that runs regions of different thread groups, which follow each other, at the same time."""
    runs = []
    for stmt in stmts:
        group = thread_groups.group_of(stmt)
        inner = replace(scope.at(stmt), workers=group.count)
        runs.append(_of_group(inner.stmt(stmt.body), group, scope))

    def run(state: State) -> None:
        Crew([_with_state(one, state) for one in runs]).run()

    return run


def _of_group(body: Executor, group: thread_groups.ThreadGroup, scope: Scope) -> Executor:
    if not scope.threads:
        return body

    def run(state: State) -> None:
        ids = state.space.ids
        outer = state.active()
        state.mask = outer & (ids >= group.first) & (ids < group.first + group.count)
        if state.mask.any():
            body(state)

    return run


def _with_state(run: Executor, state: State) -> Callable[[Crew], None]:
    return lambda crew: void(run(state.fork(crew)))


def void(_signal: object) -> None:
    """Regions are left at their ends only."""
