"""Text and pictures of layouts, and bank conflicts against a count lane by lane."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile_core.errors import LayoutError, PlottingUnavailableError
from tile_core.layouts import Fragment, Layout, bank_conflicts, parallel_fragment, plot_layout

PNG = b"\x89PNG\r\n"


def test_text_of_a_fragment_names_thread_and_register_of_every_element() -> None:
    text = plot_layout(parallel_fragment((2, 8), threads=4, vector=2)).splitlines()
    assert text[0] == "Fragment((2, 8) -> 4 threads × 4 registers)"
    assert text[2].split() == ["0", "0:0", "0:1", "1:0", "1:1", "2:0", "2:1", "3:0", "3:1"]
    assert text[3].split() == ["1", "0:2", "0:3", "1:2", "1:3", "2:2", "2:3", "3:2", "3:3"]
    assert text[4] == "thread 0: (0, 0) (0, 1) (1, 0) (1, 1)"
    assert len(text) == 8


def test_replicas_of_an_element_are_all_named() -> None:
    text = plot_layout(Fragment((3,), forward_fn=lambda i: (i, 0)).replicate(2))
    assert "0,3:0" in text and "2,5:0" in text


def test_axes_before_the_last_are_named_by_row() -> None:
    rows = plot_layout(parallel_fragment((2, 3, 2), threads=2)).splitlines()[2:8]
    assert [row.split()[0] for row in rows] == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


def test_a_large_tile_is_cut_and_says_so() -> None:
    text = plot_layout(parallel_fragment((128, 128), threads=128, vector=4))
    assert "… 128 rows of 128" in text and "… 128 threads" in text
    assert len(text) < 10_000


def test_text_of_a_layout_names_place_and_bank() -> None:
    text = plot_layout(Layout.row_major((4, 64)), itemsize=2, title="half")
    assert text.splitlines()[0] == "half"
    assert "0@0" in text and "65@0" in text and "66@1" in text
    assert "along axis 1, 1 element a lane: no bank conflicts" in text


@pytest.mark.parametrize(
    ("layout", "axis", "options", "ways"),
    [
        (Layout.row_major((32, 32)), 0, {}, 32),
        (Layout.row_major((32, 32)), 1, {}, 1),
        (Layout((32, 32), lambda i, j: i * 33 + j), 0, {}, 1),
        (Layout((32, 32), lambda i, j: i * 32 + (j ^ i)), 0, {}, 1),
        # Eight rows of 16 bytes at a time, as matrix loads take them: all in the same four banks, or swizzled apart.
        (Layout.row_major((64, 64)), 0, {"itemsize": 2, "vector": 8}, 8),
        (Layout((64, 64), lambda i, j: i * 64 + (j // 8 ^ i % 8) * 8 + j % 8), 0, {"itemsize": 2, "vector": 8}, 1),
        # Two halves of a word are one word.
        (Layout.row_major((64,)), 0, {"itemsize": 2}, 1),
        (Layout.row_major((64,)), 0, {"itemsize": 8}, 1),
        (Layout((32,), lambda i: i * 0), 0, {}, 1),
    ],
)
def test_bank_conflicts(layout: Layout, axis: int, options: dict[str, int], ways: int) -> None:
    assert bank_conflicts(layout, axis, **options) == ways


def count_lane_by_lane(layout: Layout, axis: int, itemsize: int, vector: int) -> int:
    """The definition, spelled out: who asks which bank for which word."""
    flat, lanes = layout.flat, max(1, min(32, 128 // (itemsize * vector)))
    rows, columns = flat.shape
    worst = 1
    starts = range(0, columns, vector * lanes if axis == 1 else vector)
    for row in range(0, rows, lanes if axis == 0 else 1):
        for start in starts:
            asked = defaultdict(set)
            for lane in range(lanes):
                i, j = (row + lane, start) if axis == 0 else (row, start + lane * vector)
                for element in range(vector):
                    if i < rows and j + element < columns:
                        for byte in range(itemsize):
                            word = (int(flat[i, j + element]) * itemsize + byte) // 4
                            asked[word % 32].add(word)
            worst = max(worst, *(len(words) for words in asked.values()))
    return worst


@settings(max_examples=25)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    pitch=st.integers(0, 3),
    axis=st.integers(0, 1),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    vector=st.sampled_from([1, 2, 4]),
)
def test_bank_conflicts_are_those_of_the_definition(shape, pitch, axis, itemsize, vector) -> None:
    layout = Layout(shape, lambda i, j: i * (shape[1] + pitch) + j)
    found = bank_conflicts(layout, axis, itemsize=itemsize, vector=vector)
    assert found == count_lane_by_lane(layout, axis, itemsize, vector)


@pytest.mark.parametrize("options", [{"itemsize": 0}, {"vector": -1}])
def test_sizes_are_positive(options: dict[str, int]) -> None:
    with pytest.raises(LayoutError, match="positive"):
        plot_layout(Layout.row_major((4, 4)), **options)
    with pytest.raises(LayoutError, match="positive"):
        bank_conflicts(Layout.row_major((4, 4)), 0, **options)


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(LayoutError, match="no axis 2"):
        bank_conflicts(Layout.row_major((4, 4)), 2)


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 5)])
def test_every_element_is_shown_at_any_rank(shape: tuple[int, ...]) -> None:
    text = plot_layout(Layout.row_major(shape))
    assert all(f"{place}@{place % 32}" in text.split() for place in range(int(np.prod(shape))))


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), ()])
def test_shapes_without_elements_or_axes(shape: tuple[int, ...], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for number, layout in enumerate((Layout.row_major(shape), parallel_fragment(shape, threads=4))):
        path = tmp_path / f"{number}.png"
        assert f"({', '.join(map(str, shape))}" in plot_layout(layout, path)
        assert path.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    "layout", [parallel_fragment((8, 8), threads=8, vector=2), Layout.row_major((128, 64)), Layout.row_major((5,))]
)
def test_a_picture_and_the_same_text(layout: Layout | Fragment, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "layout.png"
    assert plot_layout(layout, path, "title") == plot_layout(layout, title="title")
    assert path.read_bytes().startswith(PNG)


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlottingUnavailableError, match="pip install matplotlib") as caught:
        plot_layout(Layout.row_major((4, 4)), tmp_path / "layout.png")
    assert isinstance(caught.value, ImportError) and caught.value.code == "TILE-E0603"
    assert not list(tmp_path.iterdir())
