"""Runs a statement for one iteration after the other, for what numpy cannot do for all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tile_core.interpreter.signals import Executor
from tile_core.interpreter.space import UNIFORM, Space
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage


def one_by_one(run: Executor) -> Executor:
    """`run`, compiled for uniform code, once for every active iteration, in their order."""

    def each(state: State) -> None:
        space, mask, values, buffers = state.space, state.mask, state.values, state.buffers
        lanes = np.argwhere(state.active())
        state.space, state.mask = UNIFORM, None
        try:
            for lane in lanes:
                at = tuple(int(index) for index in lane)
                state.values = [_value(value, at) for value in values]
                state.buffers = [_storage(storage, space, at) for storage in buffers]
                run(state)
        finally:
            state.space, state.mask, state.values, state.buffers = space, mask, values, buffers

    return each


def _value(value: Any, at: tuple[int, ...]) -> Any:
    # A vector value has its lanes behind the axes of the space.
    if not isinstance(value, np.ndarray) or value.ndim not in (len(at), len(at) + 1):
        return value
    return value[tuple(min(index, extent - 1) for index, extent in zip(at, value.shape, strict=False))]


def _storage(storage: Storage | None, space: Space, at: tuple[int, ...]) -> Storage | None:
    """The iteration's own copy, as a view, where it has one."""
    if storage is None or storage.space is not space:
        return storage
    written = None if storage.written is None else storage.written[at]
    return replace(storage, data=storage.data[at], written=written, space=UNIFORM, borrowed=None, lender=None)
