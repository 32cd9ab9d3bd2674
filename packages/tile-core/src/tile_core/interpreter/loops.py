"""Serial loops and `while`; over an iteration space, iterations may leave them at different times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm.tirx import stmt as S

from tile_core.errors.interpreter import EndlessLoopError, LoopIndexRangeError
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import BREAK, RETURN, Executor, Signal
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import LoopMasks, State
from tile_core.interpreter.values import dtype_of


def compile_for(stmt: S.For, scope: Scope) -> Executor:
    """The function that runs a loop in order."""
    start, extent = scope.expr(stmt.min), scope.expr(stmt.extent)
    step = None if stmt.step is None else scope.expr(stmt.step)
    dtype = dtype_of(stmt.loop_var).numpy.type
    slot, inner = scope.loop(stmt.loop_var)
    body = inner.stmt(stmt.body)
    last_index, name = np.iinfo(dtype).max, str(stmt.loop_var.name)

    def check_last(last: int) -> None:
        if last > last_index:
            raise LoopIndexRangeError(
                f"{name} goes up to {last}, which is no {np.dtype(dtype)}",
                remedy="give bounds of dtype int64, or check the arguments that they are computed from",
                span=scope.span,
            )

    def one(state: State) -> Signal | None:
        first, count = int(start(state)), int(extent(state))
        stride = 1 if step is None else int(step(state))
        check_last(first + max(count, 1) - 1)
        for at in range(first, first + count, stride):
            state.values[slot] = dtype(at)
            signal = body(state)
            if signal is BREAK:
                break
            if signal is RETURN:
                return signal
        return None

    def many(state: State) -> Signal | None:
        first, count = start(state), extent(state)
        check_last(int(np.max(np.asarray(first, np.int64) + np.maximum(count, 1) - 1, initial=0)))
        stride = np.ones((), first.dtype)[()] if step is None else step(state)

        def holds(state: State, at: int) -> Array:
            state.values[slot] = np.asarray(first + dtype(at) * stride)[()]
            return np.asarray(dtype(at) * stride < count)

        _run_masked(state, holds, body)
        return None

    return many if scope.vector else one


def compile_while(stmt: S.While, scope: Scope) -> Executor:
    """The function that runs a `while` loop.

    The function raises EndlessLoopError after `Options.max_steps` passes.
    """
    condition, body = scope.expr(stmt.condition), scope.stmt(stmt.body)
    limit, span = scope.options.max_steps, scope.span

    def endless() -> EndlessLoopError:
        return EndlessLoopError(
            f"a while loop ran {limit} times", remedy="correct its condition, or raise interpret.max_steps", span=span
        )

    def one(state: State) -> Signal | None:
        for _ in range(limit):
            if not condition(state):
                return None
            signal = body(state)
            if signal is BREAK:
                return None
            if signal is RETURN:
                return signal
        raise endless()

    def many(state: State) -> Signal | None:
        def holds(state: State, at: int) -> Array:
            if at == limit:
                raise endless()
            return np.asarray(condition(state))

        _run_masked(state, holds, body)
        return None

    return many if scope.vector else one


def _run_masked(state: State, holds: Callable[[State, int], Array], body: Executor) -> None:
    """Run `body` while `holds(state, pass)` for some iteration; afterwards those that did not return go on."""
    entered = state.active()
    outer, live, finished = state.loop, entered, np.zeros(state.space.shape, np.bool_)
    passes = 0
    try:
        while live.any():
            state.mask = None if live.all() else live
            going = state.space.spread(holds(state, passes)) & live
            finished = finished | (live & ~going)
            if not going.any():
                break
            masks = state.loop = LoopMasks(state.space.shape)
            state.mask = None if going.all() else going
            body(state)
            finished = finished | masks.broken
            live = state.active() | masks.continued
            passes += 1
    finally:
        state.loop = outer
    state.mask = None if finished.all() else finished
