"""Pictures of layouts: which thread owns which element, and which bank of shared memory an element sits in.

The text form needs nothing and is what a terminal, a test or a bug report wants. The picture needs matplotlib, which is
imported only when a path is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tile_core.errors import LayoutError, PlottingUnavailableError
from tile_core.layouts.fragment import Fragment
from tile_core.layouts.layout import Layout
from tile_core.layouts.tabulate import Table

BANKS = 32
BANK_BYTES = 4
_PHASE_BYTES = BANKS * BANK_BYTES
_ROWS, _COLUMNS = 32, 16
"""The part of a tile that the text shows."""
_LABELLED = 32
"""Rows or columns of the largest tile whose picture has text in every cell."""
_LISTED = 8
"""Threads, and elements of a thread, that the text lists."""


def plot_layout(
    layout: Layout | Fragment,
    path: str | Path | None = None,
    title: str | None = None,
    *,
    itemsize: int = 4,
    vector: int = 1,
) -> str:
    """Describe who owns what, as text, and draw it into `path` (PNG, or what else the suffix says).

    A cell of a `Fragment` reads `thread:register`, with every thread of a replicated element. A cell of a `Layout`
    reads `place@bank`: the element's flat place, and its bank in a shared memory of 32 banks of 4 bytes, for elements
    of `itemsize` bytes; below the table stands what `bank_conflicts` finds for accesses of `vector` elements a lane.
    Axes before the last are shown one below the other. The text shows the beginning of a large tile, the picture all
    of it.

    Raises:
        PlottingUnavailableError: a path is given and matplotlib is not installed.
        LayoutError: the layout leaves the non-negative integers, or `itemsize` or `vector` is not positive.

    >>> print(plot_layout(Fragment((2, 4), forward_fn=lambda i, j: (i * 2 + j // 2, j % 2))))
    Fragment((2, 4) -> 4 threads × 2 registers)
           0    1    2    3
    0    0:0  0:1  1:0  1:1
    1    2:0  2:1  3:0  3:1
    thread 0: (0, 0) (0, 1)
    thread 1: (0, 2) (0, 3)
    thread 2: (1, 0) (1, 1)
    thread 3: (1, 2) (1, 3)
    """
    _check(itemsize, vector)
    drawn = _Fragment(layout) if isinstance(layout, Fragment) else _Layout(layout, itemsize, vector)
    if path is not None:
        _draw(drawn, Path(path), title or drawn.head)
    return "\n".join([title or drawn.head, *_table(drawn), *drawn.notes()])


def bank_conflicts(layout: Layout, axis: int, *, itemsize: int = 4, vector: int = 1) -> int:
    """How many times the slowest access along `axis` is repeated because of bank conflicts; 1 is free of them.

    Lanes stand side by side along `axis`, each with `vector` adjacent elements of the last axis. Shared memory serves
    128 bytes at a time: 32 lanes of 4 bytes, or 8 lanes of 16. Of one service, the bank that is asked for the most
    different words decides; one word read by several lanes is read once.

    >>> bank_conflicts(Layout.row_major((32, 32)), axis=0), bank_conflicts(Layout.row_major((32, 32)), axis=1)
    (32, 1)
    >>> bank_conflicts(Layout((32, 32), lambda i, j: (i, j ^ i)), axis=0)
    1

    Raises:
        LayoutError: `itemsize` or `vector` is not positive, or the layout has no such axis.
    """
    _check(itemsize, vector)
    if not -len(layout.shape) <= axis < len(layout.shape):
        raise LayoutError(f"a layout of shape {layout.shape} has no axis {axis}", remedy="give an axis of the layout")
    if not layout.flat.size:
        return 1
    places = _accesses(layout.flat, axis % len(layout.shape), vector)
    lanes = max(1, min(BANKS, _PHASE_BYTES // (itemsize * vector)))
    worst = 1
    for line, vectors in product(range(places.shape[0]), range(places.shape[1])):
        for first in range(0, places.shape[2], lanes):
            served = places[line, vectors, first : first + lanes]
            worst = max(worst, _repeats(served[served >= 0], itemsize))
    return worst


def _check(itemsize: int, vector: int) -> None:
    if itemsize < 1 or vector < 1:
        raise LayoutError(
            f"itemsize and vector are positive, not {itemsize} and {vector}", remedy="give numbers of at least 1"
        )


def _accesses(flat: Table, axis: int, vector: int) -> Table:
    """Places by (line, vector within the line, lane, element); -1 pads the last vector."""
    last = flat.ndim - 1
    short = -flat.shape[last] % vector
    padded = np.pad(flat, [(0, 0)] * last + [(0, short)], constant_values=-1)
    split = padded.reshape(*padded.shape[:-1], padded.shape[-1] // vector, vector)
    lanes_last = np.moveaxis(split, last if axis == last else axis, -2)
    vectors = 1 if axis == last else lanes_last.shape[-3]
    return lanes_last.reshape(-1, vectors, *lanes_last.shape[-2:])


def _repeats(places: Table, itemsize: int) -> int:
    bytes_touched = places[:, None] * itemsize + np.arange(itemsize)
    words = np.unique(bytes_touched // BANK_BYTES)
    return int(np.bincount(words % BANKS).max()) if words.size else 1


class _Fragment:
    """What is drawn of a fragment."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment
        self.head = repr(fragment)
        self.shape = fragment.shape
        self.colours = _flatten(fragment.thread_table[..., 0])
        self.palette = max(fragment.threads, 1)
        self._threads = fragment.thread_table.reshape(*self.colours.shape, fragment.replicate_size)
        self._registers = _flatten(fragment.local_table)

    def cell(self, row: int, column: int) -> str:
        threads = ",".join(map(str, np.unique(self._threads[row, column])))
        return f"{threads}:{self._registers[row, column]}"

    def notes(self) -> Iterator[str]:
        threads = self._fragment.threads
        for thread in range(min(threads, _LISTED)):
            owned = self._fragment.owned_by(thread)
            more = " …" if len(owned) > _LISTED else ""
            yield f"thread {thread}: {' '.join(map(str, owned[:_LISTED]))}{more}"
        if threads > _LISTED:
            yield f"… {threads} threads"


class _Layout:
    """What is drawn of a layout."""

    def __init__(self, layout: Layout, itemsize: int, vector: int) -> None:
        self._layout, self._itemsize, self._vector = layout, itemsize, vector
        self.head = f"Layout({layout.shape} -> {layout.output_shape}), {itemsize} bytes an element"
        self.shape = layout.shape
        self._places = _flatten(layout.flat)
        self.colours = self._places * itemsize // BANK_BYTES % BANKS
        self.palette = BANKS

    def cell(self, row: int, column: int) -> str:
        return f"{self._places[row, column]}@{self.colours[row, column]}"

    def notes(self) -> Iterator[str]:
        lanes = f"{self._vector} elements a lane" if self._vector > 1 else "1 element a lane"
        for axis in range(len(self.shape)):
            ways = bank_conflicts(self._layout, axis, itemsize=self._itemsize, vector=self._vector)
            found = "no bank conflicts" if ways == 1 else f"{ways}-way bank conflicts"
            yield f"along axis {axis}, {lanes}: {found}"


def _flatten(table: Table) -> Table:
    columns = table.shape[-1] if table.ndim else 1
    return table.reshape(prod(table.shape[:-1]), columns)


def _table(drawn: _Fragment | _Layout) -> Iterator[str]:
    rows, columns = drawn.colours.shape
    shown = range(min(rows, _ROWS)), range(min(columns, _COLUMNS))
    names = _row_names(drawn.shape)
    cells = [[drawn.cell(row, column) for column in shown[1]] for row in shown[0]]
    width = max((len(cell) for line in cells for cell in line), default=1)
    margin = max((len(names[row]) for row in shown[0]), default=1)
    more = "  …" if columns > _COLUMNS else ""
    yield f"{'':{margin}}  " + "".join(f"{column:>{width + 2}}" for column in shown[1]) + more
    for row, line in enumerate(cells):
        yield f"{names[row]:>{margin}}  " + "".join(f"{cell:>{width + 2}}" for cell in line) + more
    if rows > _ROWS:
        yield f"… {rows} rows of {columns}"


def _row_names(shape: Sequence[int]) -> list[str]:
    return [",".join(map(str, index)) or "0" for index in np.ndindex(*shape[:-1])]


def _draw(drawn: _Fragment | _Layout, path: Path, title: str) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingUnavailableError(
            f"drawing {path.name} needs matplotlib, which is not installed",
            remedy="python -m pip install matplotlib; without a path, plot_layout returns text and needs nothing",
        ) from error
    rows, columns = drawn.colours.shape
    labelled = max(rows, columns) <= _LABELLED
    cell = 0.45 if labelled else 12 / max(rows, columns)
    figure = Figure(figsize=(max(4.0, columns * cell + 1), max(1.6, rows * cell * 0.7 + 1)), layout="constrained")
    axes: Any = figure.subplots()
    if drawn.colours.size:
        axes.imshow(drawn.colours, cmap="turbo", vmin=0, vmax=max(drawn.palette - 1, 1), alpha=0.55, aspect="auto")
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    if columns <= _ROWS:
        axes.set_xticks(range(columns))
    if rows <= _ROWS:
        axes.set_yticks(range(rows), _row_names(drawn.shape))
    if labelled:
        for row, column in np.ndindex(rows, columns):
            axes.text(column, row, drawn.cell(row, column), ha="center", va="center", fontsize=6)
    figure.savefig(path, dpi=110)
