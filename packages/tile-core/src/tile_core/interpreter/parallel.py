"""`T.Parallel`: all iterations of the nest at once, statement by statement, in numpy.

That is the meaning of the loop wherever its iterations are independent, which the access log and the private copies of
local variables verify: a program whose result depends on the order of iterations is refused.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.interpreter import InterpreterLimitError, NoReferenceMeaningError
from tile_core.interpreter.collective import together
from tile_core.interpreter.private import Private
from tile_core.interpreter.races import AccessLog
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.space import Space
from tile_core.interpreter.state import State
from tile_core.interpreter.values import dtype_of
from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import LOCAL, VAR
from tile_core.ir.regions import scope as scope_of
from tile_core.ir.visit import collect

MAX_ITERATIONS = 1 << 25


def compile_parallel(stmt: S.For, scope: Scope) -> Executor:
    """The function that runs a nest of `PARALLEL` loops.

    Raises:
        NoReferenceMeaningError: a nest inside of another that is not perfect.
    """
    if scope.parallel:
        raise NoReferenceMeaningError(
            "T.Parallel inside of T.Parallel", remedy="write one T.Parallel with all extents", span=scope.span
        )
    loops = _nest(stmt)
    outside = replace(scope, collective=scope.threads or scope.collective, threads=False, vector=False)
    bounds = [(outside.expr(loop.min), outside.expr(loop.extent)) for loop in loops]
    body = loops[-1].body
    written = frozenset(scope.root(store.buffer) for store in collect(body, S.BufferStore))
    inner = replace(outside, vector=True, parallel=True, written=written)
    slots = []
    for loop in loops:
        slot, inner = inner.loop(loop.loop_var)
        slots.append(slot)
    private = [Private(inner.buffer(buffer), outside.storage(buffer)) for buffer in _private(body, written)]
    run_body = inner.stmt(body)
    names = [str(loop.loop_var.name) for loop in loops]
    kinds = [dtype_of(loop.loop_var).numpy for loop in loops]
    span = scope.span

    def run(state: State) -> None:
        limits = [(first(state), int(extent(state))) for first, extent in bounds]
        space = Space([max(0, extent) for _, extent in limits], names)
        if space.size > MAX_ITERATIONS:
            raise InterpreterLimitError(
                f"T.Parallel has {space.size} iterations, the interpreter's limit is {MAX_ITERATIONS}",
                remedy="split the work over blocks",
                span=span,
            )
        if not space.size:
            return
        saved = state.space, state.mask, state.log, state.loop
        for slot, (first, _), axis, kind in zip(slots, limits, space.grid, kinds, strict=True):
            state.values[slot] = (axis + first).astype(kind)
        copies = [copy.enter(state, space) for copy in private]
        log = AccessLog(space, "iterations") if scope.options.check_races else None
        state.space, state.mask, state.log, state.loop = space, None, log, None
        try:
            run_body(state)
        finally:
            state.space, state.mask, state.log, state.loop = saved
        if log is not None:
            log.check()
        for copy, outer in zip(private, copies, strict=True):
            copy.leave(state, outer, span)

    return together(run, "T.Parallel", scope) if scope.threads else run


def _nest(stmt: S.For) -> list[S.For]:
    rank = int(stmt.annotations.get(PARALLEL, 1))
    loops = [stmt]
    while len(loops) < rank:
        inner = loops[-1].body
        assert isinstance(inner, S.For)
        loops.append(inner)
    return loops


def _private(body: S.Stmt, written: frozenset[ir.Var]) -> list[ir.Var]:
    """Local buffers from outside that the loop writes: every iteration works on its own copy."""
    inside = {alloc.buffer for alloc in collect(body, S.AllocBuffer)}
    return [buffer for buffer in written if scope_of(buffer) in (LOCAL, VAR) and buffer not in inside]
