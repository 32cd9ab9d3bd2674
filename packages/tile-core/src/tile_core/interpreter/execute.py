"""Statements: each is compiled once into a Python function of the state.

In uniform code, `break` and `continue` are signals that the functions return; over an iteration space they narrow the
mask, and a statement whose mask is empty is not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.base import TileError
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.interpreter import access, debugger
from tile_core.interpreter.arithmetic import converter
from tile_core.interpreter.calls import is_expression
from tile_core.interpreter.indices import EXACT, compile_indices, is_data
from tile_core.interpreter.launch import compile_launch
from tile_core.interpreter.loops import compile_for, compile_while
from tile_core.interpreter.options import Step
from tile_core.interpreter.parallel import compile_parallel
from tile_core.interpreter.phases import compile_groups, initial_words
from tile_core.interpreter.races import AccessLog
from tile_core.interpreter.reducers import compile_contribution
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.signals import BREAK, CONTINUE, RETURN, Executor, Signal
from tile_core.interpreter.space import UNIFORM
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import OTHER_POISON, POISON, allocate
from tile_core.interpreter.tile_ops import compile_tile_op
from tile_core.interpreter.values import dtype_of, no_meaning
from tile_core.interpreter.views import compile_view
from tile_core.ir.asserts import ASSERTION_REMEDY, text_of
from tile_core.ir.launch import is_launch
from tile_core.ir.regions import LOCAL, VAR
from tile_core.ir.regions import scope as scope_of
from tile_core.ir.thread_groups import is_region
from tile_core.ir.visit import collect
from tile_core.ops.asynchronous import ARRIVALS
from tile_core.ops.base import op_name

PRIVATE = (LOCAL, VAR)


def compile_stmt(stmt: S.Stmt, scope: Scope) -> Executor:
    """The function that runs `stmt`; it attaches the statement's place in the source to errors.

    Raises:
        NoReferenceMeaningError: a statement that the interpreter has no meaning for.
    """
    if is_launch(stmt):
        return compile_launch(stmt, scope.at(stmt))
    compiler = _COMPILERS.get(type(stmt))
    scope = scope.at(stmt)
    if compiler is None:
        raise no_meaning(f"a statement of kind {type(stmt).__name__}", scope.span)
    try:
        run = compiler(stmt, scope)
    except TileError as error:
        error.span = error.span or scope.span
        raise
    return run if isinstance(stmt, S.SeqStmt) or scope.on_step is None else _stepped(run, stmt, scope)


def _stepped(run: Executor, stmt: S.Stmt, scope: Scope) -> Executor:
    on_step, place, span = scope.on_step, scope.place, scope.span
    text = _text(stmt)
    assert on_step is not None

    def step(state: State) -> Signal | None:
        on_step(Step(span, text, place.numbers(state)))
        return run(state)

    return step


def _text(stmt: S.Stmt) -> str:
    """The statement's own line: the head of a compound one, what follows TVM's declarations for a simple one."""
    lines = str(stmt.script()).strip().splitlines()
    return lines[0] if isinstance(stmt, S.For | S.While | S.IfThenElse) else lines[-1]


def _sequence(stmt: S.SeqStmt, scope: Scope) -> Executor:
    steps = _steps(list(stmt.seq), scope)
    if scope.vector:
        return lambda state: _run_masked(steps, state)
    return lambda state: _run(steps, state)


def _steps(stmts: list[S.Stmt], scope: Scope) -> list[Executor]:
    """A step for each statement, and one for regions of thread groups that follow each other."""
    found: list[Executor] = []
    for beside, run in groupby(stmts, is_region):
        if beside:
            found.append(compile_groups(list(run), scope))
        else:
            found += [scope.stmt(stmt) for stmt in run]
    return found


def _run(steps: list[Executor], state: State) -> Signal | None:
    for step in steps:
        signal = step(state)
        if signal is not None:
            return signal
    return None


def _run_masked(steps: list[Executor], state: State) -> None:
    for step in steps:
        if state.mask is not None and not state.mask.any():
            return
        step(state)


def _bind(stmt: S.Bind, scope: Scope) -> Executor:
    value, slot = scope.expr(stmt.value), scope.declare(stmt.var)
    if is_data(stmt.value, scope):
        scope.names.data.add(stmt.var)
    if isinstance(stmt.value, EXACT) and not (collect(stmt.value, TensorLoad) or collect(stmt.value, ir.Call)):
        scope.names.arithmetic[stmt.var] = stmt.value

    def run(state: State) -> None:
        state.values[slot] = value(state)

    return run


def _store(stmt: S.BufferStore, scope: Scope) -> Executor:
    contribution = compile_contribution(stmt, scope)
    if contribution is not None:
        return contribution
    if scope.threads and scope.options.check_races and scope_of(stmt.buffer) not in PRIVATE:
        return _without_races(_plain_store(stmt, replace(scope, written=frozenset((scope.root(stmt.buffer),)))))
    return _plain_store(stmt, scope)


def _without_races(run: Executor) -> Executor:
    """A store of many threads, which must not use what another one of them writes in the same statement."""

    def checked(state: State) -> None:
        state.log = AccessLog(state.space, "threads")
        run(state)
        log, state.log = state.log, None
        log.check()

    return checked


def _plain_store(stmt: S.BufferStore, scope: Scope) -> Executor:
    storage, site = scope.storage(stmt.buffer), scope.site(stmt.buffer)
    index = compile_indices(stmt.buffer, stmt.indices, scope)
    value = _converted(stmt.value, DType(str(stmt.buffer.dtype)), scope)
    if scope.vector:
        return lambda state: access.store_many(storage(state), [at(state) for at in index], value(state), state, site)
    return lambda state: access.store_one(
        storage(state), tuple([int(at(state)) for at in index]), value(state), state, site
    )


def _converted(value: ir.Expr, dtype: DType, scope: Scope) -> Evaluator:
    evaluate, source = scope.expr(value), dtype_of(value)
    if source is dtype:
        return evaluate
    convert = converter(source, dtype)
    return lambda state: convert(evaluate(state))


def _evaluate(stmt: S.Evaluate, scope: Scope) -> Executor:
    if op_name(stmt) == debugger.OPERATOR:
        return debugger.compile_breakpoint(scope)
    if op_name(stmt) is not None and _is_statement(stmt):
        return compile_tile_op(stmt, scope)
    control = _CONTROL.get(str(getattr(getattr(stmt.value, "op", None), "name", "")))
    if control is not None:
        return _leave(control, scope)
    value = scope.expr(stmt.value)

    def run(state: State) -> None:
        value(state)

    return run


def _is_statement(stmt: S.Evaluate) -> bool:

    return not is_expression(stmt.value)


def _allocate(stmt: S.AllocBuffer, scope: Scope) -> Executor:
    buffer = stmt.buffer
    arrivals = stmt.annotations.get(ARRIVALS)
    words = None if arrivals is None else initial_words(list(arrivals))
    slot, where, dtype = scope.buffer(buffer), scope_of(buffer), DType(str(buffer.dtype))
    shape = [scope.expr(extent) for extent in buffer.ty.shape]
    own = where in PRIVATE or (where.startswith("local.") and scope.parallel)
    tracked, span = scope.options.check_uninitialized, scope.span
    poison = OTHER_POISON if scope.options.reversed_order else POISON

    def run(state: State) -> None:
        extents = tuple(int(extent(state)) for extent in shape)
        storage = allocate(str(buffer.name), dtype, where, extents, state.space if own else UNIFORM, span, poison)
        if words is not None:
            storage.data[...] = words
        if not tracked or words is not None:
            storage.written = None
        state.buffers[slot] = storage

    return run


def _if(stmt: S.IfThenElse, scope: Scope) -> Executor:
    condition = scope.expr(stmt.condition)
    then = scope.stmt(stmt.then_case)
    other = None if stmt.else_case is None else scope.stmt(stmt.else_case)

    def one(state: State) -> Signal | None:
        if condition(state):
            return then(state)
        return None if other is None else other(state)

    def many(state: State) -> Signal | None:
        chosen = condition(state)
        if np.ndim(chosen) == 0:
            return one(state) if chosen is not None else None
        _branch(state, state.space.spread(chosen), then, other)
        return None

    return many if scope.vector else one


def _branch(state: State, chosen: Any, then: Executor, other: Executor | None) -> None:
    """Run both sides, each for its iterations, and continue with those that neither side took out."""
    active = state.active()
    left = []
    for side, mask in ((then, active & chosen), (other, active & ~chosen)):
        state.mask = mask
        if side is not None and mask.any():
            side(state)
        left.append(state.active())
    remaining = left[0] | left[1]
    state.mask = None if remaining.all() else remaining


def _leave(signal: Signal, scope: Scope) -> Executor:
    if not scope.vector:
        return lambda state: signal

    def run(state: State) -> None:
        active = state.active()
        if signal is not RETURN:
            assert state.loop is not None
            masks = state.loop
            if signal is BREAK:
                masks.broken = masks.broken | active
            else:
                masks.continued = masks.continued | active
        state.mask = np.zeros(state.space.shape, np.bool_)

    return run


def _assert(stmt: S.AssertStmt, scope: Scope) -> Executor:
    condition, place, span = scope.expr(stmt.condition), scope.place, scope.span
    message = text_of(" ".join(str(getattr(part, "value", part)) for part in stmt.message_parts))

    def run(state: State) -> None:
        failed = ~np.asarray(condition(state), np.bool_)
        if scope.vector:
            failed = state.space.spread(failed) & state.active()
        if failed.any():
            lane = [int(at) for at in np.unravel_index(int(np.argmax(failed)), failed.shape)]
            raise DeviceAssertError(
                f"assertion failed: {message}{place.describe(state, lane)}",
                remedy=ASSERTION_REMEDY,
                span=span,
            )

    return run


def _attribute(stmt: S.AttrStmt, scope: Scope) -> Executor:
    if is_region(stmt):
        return compile_groups([stmt], scope)
    return scope.stmt(stmt.body)


def _for(stmt: S.For, scope: Scope) -> Executor:
    return (compile_parallel if stmt.kind == S.ForKind.PARALLEL else compile_for)(stmt, scope)


_CONTROL: dict[str, Signal] = {
    "tirx.break_loop": BREAK,
    "tirx.continue_loop": CONTINUE,
    "tirx.thread_return": RETURN,
}
_COMPILERS: dict[type, Callable[[Any, Scope], Executor]] = {
    S.SeqStmt: _sequence,
    S.Bind: _bind,
    S.BufferStore: _store,
    S.Evaluate: _evaluate,
    S.AllocBuffer: _allocate,
    S.IfThenElse: _if,
    S.For: _for,
    S.While: compile_while,
    S.Break: lambda stmt, scope: _leave(BREAK, scope),
    S.Continue: lambda stmt, scope: _leave(CONTINUE, scope),
    S.AssertStmt: _assert,
    S.AttrStmt: _attribute,
    S.DeclBuffer: compile_view,
}
