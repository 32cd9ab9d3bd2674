"""Finds races between the iterations of one parallel region.

While the region runs, accesses to buffers that it writes are logged; at its end they are compared element by element.
Iterations may write one value to one element; everything else that depends on their order is a race. Buffers that are
only read are not logged, and an access with the same indices as the one before costs a comparison, so that the usual
elementwise loop is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import DataRaceError
from tile_core.interpreter.space import Array, Space, same
from tile_core.interpreter.storage import Storage


@dataclass
class Access:
    """Which iteration used which element: row-major numbers of both, and what was written, one row a use."""

    elements: Array
    iterations: Array
    values: Array | None
    span: SourceSpan | None

    @cached_property
    def ascending(self) -> bool:
        """Whether the elements are in ascending order without repetition."""
        return bool((self.elements[1:] > self.elements[:-1]).all())

    def same_places(self, other: Access) -> bool:
        """Whether the same iterations use the same elements in the same order."""
        return self.elements is other.elements or (
            self.elements.shape == other.elements.shape
            and np.array_equal(self.elements, other.elements)
            and np.array_equal(self.iterations, other.iterations)
        )


@dataclass
class AccessLog:
    """The accesses of one parallel region to the buffers in `written`."""

    space: Space
    what: str
    reads: dict[Storage, list[Access]] = field(default_factory=dict)
    writes: dict[Storage, list[Access]] = field(default_factory=dict)

    def read(self, storage: Storage, access: Access) -> None:
        """Log a read."""
        _append(self.reads.setdefault(storage.memory, []), access)

    def write(self, storage: Storage, access: Access) -> None:
        """Log a write."""
        _append(self.writes.setdefault(storage.memory, []), access)

    def check(self) -> None:
        """Compare what was logged.

        Raises:
            DataRaceError: the result depends on the order of iterations.
        """
        for storage, writes in self.writes.items():
            self._check_values(storage, writes)
            settled = {id(access) for access in writes if access.ascending}
            reads = [read for read in self.reads.get(storage, ()) if not self._own(read, writes, settled)]
            if reads:
                writers = Writers.of(writes)
                for access in reads:
                    self._check_read(storage, writers, access)
            self._check_order(storage, writes)

    def _own(self, read: Access, writes: list[Access], settled: set[int]) -> bool:
        """Whether every iteration reads exactly what it alone writes."""
        return any(id(write) in settled and read.same_places(write) for write in writes) and len(writes) == 1

    def _check_values(self, storage: Storage, writes: list[Access]) -> None:
        """Refuse different values for one element in one statement."""
        for access in writes:
            if access.ascending:
                continue
            order = np.argsort(access.elements, kind="stable")
            elements = access.elements[order]
            repeated = np.flatnonzero(elements[1:] == elements[:-1])
            assert access.values is not None
            first, second = order[repeated], order[repeated + 1]
            foreign = access.iterations[first] != access.iterations[second]
            differing = np.flatnonzero(foreign & ~same(access.values[first], access.values[second]).all(axis=-1))
            if differing.size:
                at = differing[0]
                pair = (int(access.iterations[first[at]]), int(access.iterations[second[at]]))
                raise self._race(storage, int(elements[repeated[at]]), pair, "write different values to", access.span)

    def _check_read(self, storage: Storage, writers: Writers, access: Access) -> None:
        position = np.searchsorted(writers.elements, access.elements)
        position[position == writers.elements.size] = 0
        written = writers.elements[position] == access.elements
        foreign = written & (
            (writers.lowest[position] != access.iterations) | (writers.highest[position] != access.iterations)
        )
        # An element that every iteration writes is each reader's own as well.
        foreign &= writers.count[position] != self.space.size
        found = np.flatnonzero(foreign)
        if found.size:
            at = found[0]
            reader = int(access.iterations[at])
            low, high = int(writers.lowest[position[at]]), int(writers.highest[position[at]])
            pair = (low if low != reader else high, reader)
            raise self._race(storage, int(access.elements[at]), pair, "write and read", access.span)

    def _check_order(self, storage: Storage, writes: list[Access]) -> None:
        """Refuse different iterations that write one element in different statements."""
        for earlier, later in pairwise(writes):
            first, second = Writers.of([earlier]), Writers.of([later])
            shared, a, b = np.intersect1d(first.elements, second.elements, assume_unique=True, return_indices=True)
            clash = (first.lowest[a] != second.lowest[b]) | (first.highest[a] != second.highest[b])
            if clash.any():
                at = int(np.flatnonzero(clash)[0])
                pair = (int(first.lowest[a[at]]), int(second.highest[b[at]]))
                if pair[0] == pair[1]:
                    pair = (int(first.highest[a[at]]), int(second.lowest[b[at]]))
                raise self._race(storage, int(shared[at]), pair, "write in different statements", later.span)

    def _race(
        self, storage: Storage, element: int, iterations: tuple[int, int], verb: str, span: SourceSpan | None
    ) -> DataRaceError:
        index = ", ".join(str(int(at)) for at in np.unravel_index(element, storage.places))
        first, second = (self._iteration(number) for number in iterations)
        return DataRaceError(
            f"{self.what} ({first}) and ({second}) {verb} {storage.name}[{index}]",
            remedy="use a serial loop, a reduction or an atomic, or write into a second tile",
            span=span,
        )

    def _iteration(self, number: int) -> str:
        index = np.unravel_index(number, self.space.shape)
        return ", ".join(f"{name}={int(at)}" for name, at in zip(self.space.names, index, strict=True))


@dataclass
class Writers:
    """For every written element, in ascending order: its lowest and highest writer, and how many writers it has."""

    elements: Array
    lowest: Array
    highest: Array
    count: Array

    @classmethod
    def of(cls, writes: list[Access]) -> Writers:
        """Collect from accesses."""
        elements = np.concatenate([access.elements for access in writes])
        iterations = np.concatenate([access.iterations for access in writes])
        order = np.lexsort((iterations, elements))
        elements, iterations = elements[order], iterations[order]
        # One entry for an element and writer, however often it writes.
        fresh = np.ones(elements.size, np.bool_)
        fresh[1:] = (elements[1:] != elements[:-1]) | (iterations[1:] != iterations[:-1])
        elements, iterations = elements[fresh], iterations[fresh]
        unique, start, count = np.unique(elements, return_index=True, return_counts=True)
        return cls(unique, iterations[start], iterations[start + count - 1], count)


def _append(accesses: list[Access], access: Access) -> None:
    if accesses and accesses[-1].same_places(access):
        accesses[-1].values = access.values
    else:
        accesses.append(access)
