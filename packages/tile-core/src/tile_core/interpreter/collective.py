"""What all threads of a block carry out together, in a program that tells threads apart."""

from __future__ import annotations

from tile_core.errors.interpreter import DivergentCollectiveError
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor, Signal
from tile_core.interpreter.space import UNIFORM
from tile_core.interpreter.state import State


def together(run: Executor, what: str, scope: Scope) -> Executor:
    """`run`, compiled for uniform code, once for all threads.

    The function raises DivergentCollectiveError where some threads do not come by.
    """
    place, span, name = scope.place, scope.span, what.removeprefix("tile.")
    workers = scope.workers

    def once(state: State) -> Signal | None:
        space, mask = state.space, state.mask
        if mask is not None and int(mask.sum()) != workers:
            raise DivergentCollectiveError(
                f"{name} is reached by {int(mask.sum())} of {workers} threads{place.describe(state)}",
                remedy="move it out of the condition on the thread index",
                span=span,
            )
        state.space, state.mask = UNIFORM, None
        try:
            return run(state)
        finally:
            state.space, state.mask = space, mask

    return once
