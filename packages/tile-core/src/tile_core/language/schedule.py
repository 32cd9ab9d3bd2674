"""Tile schedulers: which tile a persistent block works on next."""

from __future__ import annotations

from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import Expr, VarCell
from tile_core.language._operands import is_positive_int
from tile_core.language.allocate import alloc_var
from tile_core.language.integer import ceildiv, floordiv, floormod
from tile_core.language.math import max as maximum
from tile_core.language.math import min as minimum

__all__ = ["BaseTileScheduler", "PersistentTileScheduler"]


class BaseTileScheduler:
    """State and skeleton of a scheduler, for use while tracing.

    A subclass sets `total` (the number of tiles) and defines `update_current_idx`, which decodes `linear_idx` and
    calls `set_tile`. The state lives in variables of each thread: `m_idx`, `n_idx`, `linear_idx`, and `current_iter`,
    which counts the tiles done.

    Args:
        stateful: whether there is state; without it only a subclass's pure functions work.
        name: prefix of the variables' names.
    """

    total: Any

    def __init__(self, stateful: bool = True, name: str | None = None) -> None:
        self.stateful = stateful
        self.name = name
        self._state: dict[str, VarCell] = {}
        if stateful:
            self._state = {key: alloc_var("int32", 0) for key in ("m_idx", "n_idx", "linear_idx", "current_iter")}

    def _cell(self, key: str) -> VarCell:
        if key not in self._state:
            raise OpArgumentError(
                f"{type(self).__name__} with stateful=False has no {key}", remedy="use coord(), or stateful=True"
            )
        return self._state[key]

    @property
    def m_idx(self) -> Expr:
        """The current tile's row."""
        return self._cell("m_idx")

    @property
    def n_idx(self) -> Expr:
        """The current tile's column."""
        return self._cell("n_idx")

    @property
    def linear_idx(self) -> Expr:
        """The current position in the order of tiles."""
        return self._cell("linear_idx")

    @property
    def current_iter(self) -> Expr:
        """How many tiles this worker has done."""
        return self._cell("current_iter")

    def set_tile(self, m: Any, n: Any) -> None:
        """Make (m, n) the current tile."""
        self._cell("m_idx").store(m)
        self._cell("n_idx").store(n)

    def update_current_idx(self) -> None:
        """Decode `linear_idx` into the current tile; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} must define update_current_idx")

    def init(self, linear: Any) -> None:
        """Start at position `linear`."""
        self._cell("linear_idx").store(linear)
        self._cell("current_iter").store(0)
        self.update_current_idx()

    def next_tile(self, step: Any) -> None:
        """Move `step` positions on."""
        self._cell("linear_idx").store(self.linear_idx + step)
        self._cell("current_iter").store(self.current_iter + 1)
        self.update_current_idx()

    def valid(self) -> Expr:
        """Whether the current position is a tile."""
        return self.linear_idx < self.total


class PersistentTileScheduler(BaseTileScheduler):
    """Worker w visits the tiles w, w + num_workers, … of a grid of num_m_tiles × num_n_tiles.

    The order walks along M first (`column_major`) or along N first. With `swizzle_size` > 1 it goes through panels of
    so many tiles across, which share data in a cache; the last panel may be narrower. With `cluster_size` > 1,
    `m_idx` counts groups of so many tiles along M, and a worker is a cluster.

    Args:
        num_workers: the number of workers, which the portable language cannot ask a device for.

    Raises:
        OpArgumentError: no `num_workers` with state, or a size below 1.

    Example:
        scheduler = T.PersistentTileScheduler(2, 2, num_workers=2)
        scheduler.init(bx)
        while scheduler.valid():
            T.copy(A[scheduler.m_idx * 32, scheduler.n_idx * 32], tile)
            scheduler.next_tile()
    """

    def __init__(
        self,
        num_m_tiles: Any,
        num_n_tiles: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        for key, size in (("swizzle_size", swizzle_size), ("cluster_size", cluster_size)):
            if not is_positive_int(size):
                raise OpArgumentError(f"PersistentTileScheduler: {key}={size}", remedy="give an int of at least 1")
        if stateful and num_workers is None:
            raise OpArgumentError(
                "PersistentTileScheduler: num_workers is not given",
                remedy="pass the number of blocks that are launched",
            )
        super().__init__(stateful, name)
        self.num_workers = num_workers
        self.swizzle_size = swizzle_size
        self.column_major = column_major
        self.rows = ceildiv(num_m_tiles, cluster_size)
        self.columns = num_n_tiles
        self.total = self.rows * self.columns

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """The tile (m, n) at a position of the order."""
        along, across = (self.rows, self.columns) if self.column_major else (self.columns, self.rows)
        panel_tiles = along * self.swizzle_size
        panel, within = floordiv(tile_id, panel_tiles), floormod(tile_id, panel_tiles)
        if self.swizzle_size == 1:
            first, second = within, panel
        else:
            # At least 1, so that a position past the last tile divides by no zero.
            width = maximum(minimum(self.swizzle_size, across - panel * self.swizzle_size), 1)
            first, second = floordiv(within, width), panel * self.swizzle_size + floormod(within, width)
        return (first, second) if self.column_major else (second, first)

    def update_current_idx(self) -> None:
        """Decode `linear_idx`; past the last tile the coordinates mean nothing."""
        m, n = self.coord(self.linear_idx)
        self.set_tile(m, n)

    def next_tile(self, step: Any = None) -> None:
        """Move to this worker's next tile."""
        super().next_tile(self.num_workers if step is None else step)
