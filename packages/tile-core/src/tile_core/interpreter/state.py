"""What changes while a program runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile_core.interpreter.crew import Crew
from tile_core.interpreter.races import AccessLog
from tile_core.interpreter.space import UNIFORM, Array, Space
from tile_core.interpreter.storage import Storage


class State:
    """Values of variables and buffers by slot, the iteration space, and the mask of iterations that take part.

    `mask` is `None` where all of them do; it is never used in a uniform space, where control flow is Python's.
    """

    __slots__ = ("buffers", "crew", "log", "loop", "mask", "space", "values")

    def __init__(self, values: int, buffers: int) -> None:
        self.values: list[Any] = [None] * values
        self.buffers: list[Storage | None] = [None] * buffers
        self.space: Space = UNIFORM
        self.mask: Array | None = None
        self.log: AccessLog | None = None
        self.loop: LoopMasks | None = None
        self.crew: Crew | None = None

    def fork(self, crew: Crew) -> State:
        """The state of one that runs beside others of `crew`: variables and memory are the same."""
        other = State(0, 0)
        other.values, other.buffers, other.space, other.mask = self.values, self.buffers, self.space, self.mask
        other.crew = crew
        return other

    def storage(self, slot: int) -> Storage:
        """The memory of a buffer that is allocated."""
        found = self.buffers[slot]
        assert found is not None
        return found

    def active(self) -> Array:
        """The mask as an array."""
        return np.ones(self.space.shape, np.bool_) if self.mask is None else self.mask


class LoopMasks:
    """Iterations that left the innermost serial loop, or its current pass."""

    __slots__ = ("broken", "continued")

    def __init__(self, shape: Sequence[int]) -> None:
        self.broken: Array = np.zeros(shape, np.bool_)
        self.continued: Array = np.zeros(shape, np.bool_)


@dataclass(frozen=True)
class Place:
    """The variables that say where in the program's iterations an access happens: name and slot."""

    variables: tuple[tuple[str, int], ...] = ()

    def inside(self, name: str, slot: int) -> Place:
        """This place inside one more loop."""
        return Place((*self.variables, (name, slot)))

    def describe(self, state: State, lane: Sequence[int] = ()) -> str:
        """` in bx=1, i=3`, or nothing outside of all loops. `lane` is the index in the iteration space."""
        values = [(name, state.values[slot]) for name, slot in self.variables]
        shown = [f"{name}={_at(value, lane)}" for name, value in values if np.ndim(value) in (0, len(lane))]
        return f", at {', '.join(shown)}" if shown else ""

    def numbers(self, state: State) -> dict[str, int]:
        """The variables that have one value."""
        found = {name: state.values[slot] for name, slot in self.variables}
        return {name: int(value) for name, value in found.items() if np.ndim(value) == 0}


def _at(value: Any, lane: Sequence[int]) -> Any:
    if np.ndim(value) == 0:
        return value
    return value[tuple(min(at, extent - 1) for at, extent in zip(lane, np.shape(value), strict=True))]
