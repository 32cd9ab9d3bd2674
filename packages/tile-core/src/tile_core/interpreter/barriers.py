"""Barriers. Statements run in lockstep, so a barrier does nothing; that the right threads reach it is checked."""

from __future__ import annotations

import numpy as np

from tile_core.errors.interpreter import BarrierMisuseError
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.state import State
from tile_core.interpreter.target import WARP_SIZE
from tile_core.interpreter.values import no_meaning
from tile_core.ops.base import OpCall
from tile_core.ops.cluster import CLUSTER_ARRIVE, CLUSTER_SYNC, CLUSTER_WAIT
from tile_core.ops.threads import NAMED_BARRIER_ARRIVE, SYNC_GRID, SYNC_THREADS, SYNC_WARP

BARRIERS = (SYNC_THREADS, NAMED_BARRIER_ARRIVE, SYNC_WARP, SYNC_GRID, CLUSTER_ARRIVE, CLUSTER_WAIT, CLUSTER_SYNC)
_OF_BLOCKS = (SYNC_GRID, CLUSTER_ARRIVE, CLUSTER_WAIT, CLUSTER_SYNC)


def compile_barrier(call: OpCall, scope: Scope) -> Executor:
    """The function that checks who reaches a barrier.

    Raises:
        NoReferenceMeaningError: a barrier of several blocks, which run in turn here; or one inside of `T.Parallel`.
    """
    if call.op in _OF_BLOCKS:
        raise no_meaning(f"{call.op.name.removeprefix('tile.')}, since blocks run one after the other", scope.span)
    if call.op is NAMED_BARRIER_ARRIVE:
        raise no_meaning("named_barrier_arrive, since threads run in lockstep and none goes ahead", scope.span)
    if scope.parallel:
        raise no_meaning("a barrier inside of T.Parallel, whose iterations are no threads", scope.span)
    count = call.attrs.get("arrive_count")
    wanted = None if count is None else int(count)
    place, span = scope.place, scope.span

    def run(state: State) -> None:
        problem = _warps(state) if call.op is SYNC_WARP else block_problem(state, wanted)
        if problem:
            raise BarrierMisuseError(
                f"{problem}{place.describe(state)}",
                remedy="move the barrier out of the condition on the thread index",
                span=span,
            )

    return run


def block_problem(state: State, wanted: int | None = None) -> str:
    """What is wrong with the threads that reach a barrier of the block, or of `wanted` threads."""
    if not state.space.threads:
        return ""
    arrived = state.space.size if state.mask is None else int(state.mask.sum())
    expected = state.space.size if wanted is None else wanted
    if arrived == expected:
        return ""
    what = "a barrier of the block" if wanted is None else f"a barrier of {wanted} threads"
    return f"{what} is reached by {arrived} of {state.space.size} threads"


def _warps(state: State) -> str:
    if state.mask is None or not state.space.threads:
        return ""
    for warp in np.split(state.mask, range(WARP_SIZE, state.mask.size, WARP_SIZE)):
        if warp.any() and not warp.all():
            return f"a barrier of a warp is reached by {int(warp.sum())} of its {warp.size} threads"
    return ""
