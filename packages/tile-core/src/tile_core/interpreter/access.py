"""Reading and writing elements, with the checks.

Two forms each: for code that is the same for the whole block (`…_one`, plain Python indices), and for code that runs
over an iteration space (`…_many`, arrays of indices and a mask).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import OutOfBoundsAccessError, UninitializedReadError
from tile_core.interpreter.races import Access
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import Place, State
from tile_core.interpreter.storage import Storage


@dataclass(frozen=True)
class Site:
    """Where an access stands in the program."""

    place: Place
    span: SourceSpan | None
    logged: bool
    """Whether the enclosing parallel region writes the buffer, so that its accesses can race."""


def load_one(storage: Storage, index: tuple[int, ...], state: State, site: Site) -> Any:
    """The element at `index`; the safe value beyond a global tensor."""
    for at, extent in zip(index, storage.shape, strict=True):
        if not 0 <= at < extent:
            if storage.guarded:
                return storage.safe
            raise outside(storage, index, "read", site, state)
    if storage.written is not None and not storage.written[index]:
        raise unwritten(storage, index, site, state)
    # The lanes of a vector are an array, which later stores must not change.
    return storage.data[index].copy() if storage.dtype.is_vector else storage.data[index]


def store_one(storage: Storage, index: tuple[int, ...], value: Any, state: State, site: Site) -> None:
    """Write `value` at `index`; nothing beyond a global tensor."""
    for at, extent in zip(index, storage.shape, strict=True):
        if not 0 <= at < extent:
            if storage.guarded:
                return
            raise outside(storage, index, "written", site, state)
    storage.data[index] = value
    if storage.written is not None:
        storage.written[index] = True


@dataclass(frozen=True)
class Located:
    """Indices brought inside the buffer, the iterations that take part, and those of them that stay outside."""

    index: tuple[Array, ...]
    active: Array | None
    beyond: Array | None


def locate(storage: Storage, index: Sequence[Any], state: State, site: Site, verb: str) -> Located:
    """Bring `index` inside the buffer.

    Raises:
        OutOfBoundsAccessError: an active iteration is outside of memory that is not guarded.
    """
    beyond = None
    inside = []
    for at, extent in zip(map(np.asarray, index), storage.shape, strict=True):
        if at.size and (at.min() < 0 or at.max() >= extent):
            wrong = (at < 0) | (at >= extent)
            beyond = wrong if beyond is None else beyond | wrong
            at = np.where(wrong, 0, at)
        inside.append(at)
    active = state.mask
    if beyond is not None:
        beyond = state.space.spread(beyond)
        offending = beyond if active is None else beyond & active
        if not storage.guarded and offending.any():
            lane = _first(offending)
            where = tuple(int(state.space.spread(at)[lane]) for at in index)
            raise outside(storage, where, verb, site, state, lane)
        active = ~beyond if active is None else active & ~beyond
    own = storage.space is not state.space or not storage.space.shape
    return Located(tuple(inside) if own else (*state.space.grid, *inside), active, beyond)


def load_many(storage: Storage, index: Sequence[Any], state: State, site: Site) -> Any:
    """The elements at `index`, an array that broadcasts to the iteration space."""
    found = locate(storage, index, state, site, "read")
    if not storage.data.size:
        return storage.safe
    values = storage.data[found.index]
    require_written(storage, found, state, site)
    if site.logged and state.log is not None:
        elements, iterations = numbered(storage, found, state)
        state.log.read(storage, Access(elements, iterations, None, site.span))
    if found.beyond is None:
        return values
    return np.where(found.beyond[..., None] if storage.dtype.is_vector else found.beyond, storage.safe, values)


def store_many(storage: Storage, index: Sequence[Any], value: Any, state: State, site: Site) -> None:
    """Write `value` at `index`. Where iterations share an element, the last one stays."""
    found = locate(storage, index, state, site, "written")
    if not storage.data.size:
        return
    space = state.space
    places: tuple[Array, ...] = tuple(map(space.spread, found.index))
    values = space.spread(value, storage.dtype.lanes)
    if found.active is not None:
        places, values = tuple(at[found.active] for at in places), values[found.active]
    storage.data[places] = values
    if storage.written is not None:
        storage.written[places] = True
        storage.settle()
    if site.logged and state.log is not None:
        elements, iterations = numbered(storage, found, state)
        rows = values.reshape(elements.size, storage.dtype.lanes)
        state.log.write(storage, Access(elements, iterations, rows, site.span))


def numbered(storage: Storage, found: Located, state: State) -> tuple[Array, Array]:
    """Row-major numbers of the elements that active iterations use, and of those iterations."""
    space = state.space
    flat = space.spread(np.ravel_multi_index(tuple(map(np.asarray, found.index)), storage.places))
    if found.active is None:
        return flat.reshape(-1), space.ids.reshape(-1)
    return flat[found.active], space.ids[found.active]


def require_written(storage: Storage, found: Located, state: State, site: Site) -> None:
    """Refuse to read what no statement has written.

    Raises:
        UninitializedReadError: an active iteration reads such an element.
    """
    if storage.written is None:
        return
    missing = ~storage.written[found.index]
    if not missing.any():
        return
    missing = state.space.spread(missing)
    if found.active is not None:
        missing = missing & found.active
    if storage.lender is not None:
        missing = _borrow(storage, storage.lender, found, missing, state)
    if missing.any():
        lane = _first(missing)
        where = tuple(int(state.space.spread(at)[lane]) for at in found.index[len(storage.space.shape) :])
        raise unwritten(storage, where, site, state, lane)


def _borrow(storage: Storage, lender: Storage, found: Located, missing: Array, state: State) -> Array:
    """Take what an iteration has not written from outside of the loop; what is not written there either."""
    assert storage.borrowed is not None
    places = tuple(state.space.spread(at)[missing] for at in found.index)
    storage.borrowed[places] = True
    if lender.written is None:
        return np.zeros_like(missing)
    unknown = missing.copy()
    unknown[missing] = ~lender.written[places[len(state.space.shape) :]]
    return unknown


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(at) for at in np.unravel_index(int(np.argmax(mask)), mask.shape))


def element(storage: Storage, index: Sequence[int]) -> str:
    """The element as the author writes it."""
    return f"{storage.name}[{', '.join(map(str, index))}]" if index else storage.name


def outside(
    storage: Storage, index: Sequence[int], verb: str, site: Site, state: State, lane: Sequence[int] = ()
) -> OutOfBoundsAccessError:
    """The error for an index outside of a tile."""
    return OutOfBoundsAccessError(
        f"{element(storage, index)} is {verb} outside its shape {storage.shape}{site.place.describe(state, lane)}",
        remedy="correct the index, or put the access under a condition",
        span=site.span,
    )


def unwritten(
    storage: Storage, index: Sequence[int], site: Site, state: State, lane: Sequence[int] = ()
) -> UninitializedReadError:
    """The error for an element that nothing has written."""
    cause = storage.undefined or "before anything was written to it"
    what = storage.name if storage.scope == "local.var" else element(storage, index)
    return UninitializedReadError(
        f"{what} is read {cause}{site.place.describe(state, lane)}",
        remedy="fill the tile first, or write every element that is read",
        span=site.span,
    )
