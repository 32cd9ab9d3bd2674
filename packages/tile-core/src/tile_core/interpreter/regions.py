"""Regions of buffers as numpy arrays, for the reference meanings of tile ops.

A region inside its buffer is a view. One that hangs over the edge of a global tensor is a copy, filled with the safe
value outside, whose inside part is written back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import ir

from tile_core.errors.interpreter import OutOfBoundsAccessError, UninitializedReadError
from tile_core.interpreter.access import Site, element
from tile_core.interpreter.indices import compile_indices
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage


@dataclass(frozen=True)
class RegionView:
    """`values` has the region's shape.

    `inside` is the part of the buffer that the region covers; where `values` is a copy, `within` is that part in it.
    """

    storage: Storage
    values: Array
    starts: tuple[int, ...]
    inside: tuple[slice, ...]
    within: tuple[slice, ...] | None

    def write_back(self) -> None:
        """Make what an op wrote into a copy reach the buffer."""
        if self.within is not None:
            self.storage.data[self.inside] = self.values[self.within]

    def require_written(self, state: State, site: Site) -> None:
        """Refuse a region with unwritten elements. Raises UninitializedReadError."""
        if self.storage.written is None:
            return
        missing = ~self.storage.written[self.inside]
        if not missing.any():
            return
        offset = np.unravel_index(int(np.argmax(missing)), missing.shape)
        index = [int(at) + start for at, start in zip(offset, self.starts, strict=True)]
        cause = self.storage.undefined or "before anything was written to it"
        raise UninitializedReadError(
            f"{element(self.storage, index)} is read {cause}{site.place.describe(state)}",
            remedy="fill the tile first, or write every element that is read",
            span=site.span,
        )

    def mark_written(self, extents: tuple[int, ...] | None = None) -> None:
        """Count the region as written, or only the leading `extents` of it."""
        written = self.storage.written
        if written is None:
            return
        part = written[self.inside]
        part[tuple(map(slice, part.shape if extents is None else extents))] = True
        self.storage.settle()


def compile_region(region: ir.TensorRegion, scope: Scope) -> Callable[[State], RegionView]:
    """The function that gives a region's view.

    The view's evaluation raises OutOfBoundsAccessError for a region outside of memory that is not guarded.
    """
    storage, site = scope.storage(region.source), scope.site(region.source)
    starts = compile_indices(region.source, [axis.min for axis in region.region], scope)
    extents = [scope.expr(axis.extent) for axis in region.region]

    def view(state: State) -> RegionView:
        return view_region(
            storage(state),
            tuple(int(start(state)) for start in starts),
            tuple(max(0, int(extent(state))) for extent in extents),
            state,
            site,
        )

    return view


def view_region(
    storage: Storage, starts: tuple[int, ...], extents: tuple[int, ...], state: State, site: Site
) -> RegionView:
    """The view of the region of `storage` at `starts`, `extents` long."""
    axes = list(zip(starts, extents, storage.shape, strict=True))
    if all(start >= 0 and start + extent <= size for start, extent, size in axes):
        inside = tuple(slice(start, start + extent) for start, extent, _ in axes)
        return RegionView(storage, storage.data[inside], starts, inside, None)
    if not storage.guarded and 0 not in extents:
        raise _outside(storage, axes, state, site)
    bounds = [(min(max(start, 0), size), max(min(start + extent, size), 0)) for start, extent, size in axes]
    inside = tuple(slice(low, max(low, high)) for low, high in bounds)
    within = tuple(
        slice(part.start - start, part.stop - start) if part.stop > part.start else slice(0, 0)
        for part, start in zip(inside, starts, strict=True)
    )
    values = np.full(extents, storage.safe, storage.data.dtype)
    values[within] = storage.data[inside]
    return RegionView(storage, values, starts, inside, within)


def _outside(storage: Storage, axes: list[tuple[int, int, int]], state: State, site: Site) -> OutOfBoundsAccessError:
    text = ", ".join(f"{start}:{start + extent}" if extent != 1 else str(start) for start, extent, _ in axes)
    return OutOfBoundsAccessError(
        f"the region {storage.name}[{text}] reaches outside its shape {storage.shape}{site.place.describe(state)}",
        remedy="make the region end at the tile's end, or allocate a larger tile",
        span=site.span,
    )
