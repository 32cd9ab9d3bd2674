"""Local variables that exist outside of `T.Parallel` and are written inside.

On hardware each thread has its own; which iterations share a thread is not defined. So every iteration gets a copy.
One that reads the value from before the loop while another iteration writes it depends on the mapping, and is refused;
after the loop the variable has a value only if all iterations left the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import DataRaceError
from tile_core.interpreter.space import Array, Space, same
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage

UNDEFINED = "after the iterations of T.Parallel left it with different values"


@dataclass(frozen=True)
class Private:
    """A local buffer by its slot; `outer` gives its memory outside of the loop."""

    slot: int
    outer: Callable[[State], Storage]

    def enter(self, state: State, space: Space) -> Storage:
        """Give every iteration a copy; the memory from outside."""
        outer = self.outer(state)
        full = (*space.shape, *outer.data.shape)
        copy = Storage(
            outer.name,
            outer.dtype,
            outer.scope,
            np.broadcast_to(outer.data, full).copy(),
            np.zeros(full, np.bool_),
            space,
            outer.safe,
            outer.undefined,
            borrowed=np.zeros(full, np.bool_),
            lender=outer,
        )
        state.buffers[self.slot] = copy
        return outer

    def leave(self, state: State, outer: Storage, span: SourceSpan | None) -> None:
        """Put the memory from outside back, with what the loop made of it.

        Raises:
            DataRaceError: an iteration read the value from before the loop, and another one wrote it.
        """
        copy = state.storage(self.slot)
        state.buffers[self.slot] = outer
        rank = len(copy.space.shape)
        written = np.ones(copy.data.shape, np.bool_) if copy.written is None else copy.written
        flat = (copy.space.size, *outer.data.shape)
        written, data = written.reshape(flat), copy.data.reshape(flat)
        assert copy.borrowed is not None
        _refuse_races(copy.borrowed.reshape(flat), written, copy, rank, span)
        count = written.sum(axis=0)
        agreed = (count == copy.space.size) & same(data, data[0]).all(axis=0)
        outer.data[agreed] = data[0][agreed]
        if outer.written is None:
            outer.written = np.ones(outer.data.shape, np.bool_)
        outer.written[count > 0] = agreed[count > 0]
        outer.undefined = UNDEFINED if (agreed < (count > 0)).any() else outer.undefined
        outer.settle()


def _refuse_races(borrowed: Array, written: Array, copy: Storage, rank: int, span: SourceSpan | None) -> None:
    foreign = written.sum(axis=0) - written
    racing = borrowed & (foreign > 0)
    if not racing.any():
        return
    reader, *element = (int(at) for at in np.unravel_index(int(np.argmax(racing)), racing.shape))
    others = written.reshape(written.shape[0], -1)[:, np.ravel_multi_index(element, written.shape[1:])].copy()
    others[reader] = False
    shown = [
        ", ".join(
            f"{name}={int(at)}"
            for name, at in zip(copy.space.names, np.unravel_index(one, copy.space.shape), strict=True)
        )
        for one in (reader, int(np.argmax(others)))
    ]
    raise DataRaceError(
        f"iteration ({shown[0]}) reads {copy.name} from before T.Parallel, and iteration ({shown[1]}) writes it",
        remedy="initialise it inside the loop, or use a reduction",
        span=span,
    )
