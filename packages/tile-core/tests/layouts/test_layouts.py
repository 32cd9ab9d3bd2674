"""Layouts and fragments: tables, injectivity, inverse, the free mapping of parallel loops."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tile_core.errors import LayoutError
from tile_core.layouts import Fragment, Layout, parallel_fragment


def test_table_and_output_shape() -> None:
    layout = Layout((4, 8), lambda i, j: (i, j ^ i))
    assert layout.output_shape == (4, 8)
    assert layout.table[3, 5].tolist() == [3, 6]
    assert layout.is_injective


@pytest.mark.parametrize("function", [lambda i: i ^ 1, lambda i: 2 * i, lambda i: i + 10])
def test_injective_functions_of_one_axis(function) -> None:
    assert Layout((128,), function).is_injective


def test_collision_is_named() -> None:
    layout = Layout((128,), lambda i: i % 64)
    assert not layout.is_injective
    assert layout.collision() == ((0,), (64,))
    with pytest.raises(LayoutError, match="bijection"):
        layout.inverse()


def test_negative_places_are_refused() -> None:
    with pytest.raises(LayoutError, match="negative"):
        _ = Layout((4,), lambda i: i - 1).table


def test_inverse_undoes_the_layout() -> None:
    layout = Layout((6, 10), lambda i, j: (j // 5, i, j % 5))
    inverse = layout.inverse()
    for i in range(6):
        for j in range(10):
            assert inverse.table[tuple(layout.table[i, j])].tolist() == [i, j]


def test_symbolic_form_agrees_with_the_table() -> None:
    layout = Layout((16, 64), lambda i, j: (i, (j // 8 ^ i % 8) * 8 + j % 8))
    for i, j in ((0, 0), (5, 33), (15, 63)):
        mapped = layout.map_indices([tirx.IntImm("int32", i), tirx.IntImm("int32", j)])
        assert [int(value.value) for value in mapped] == layout.table[i, j].tolist()


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((8, 8), [(0, 0), (0, 1), (2, 0), (2, 1)]),
        ((2, 32), [(0, 0), (0, 1), (0, 16), (0, 17)]),
        ((4, 4, 4), [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]),
    ],
)
def test_free_mapping(extents: tuple[int, ...], expected: list[tuple[int, ...]]) -> None:
    assert parallel_fragment(extents, threads=8, vector=2).owned_by(0)[:4] == expected


@settings(max_examples=60, deadline=None)
@given(
    extents=st.lists(st.integers(1, 13), min_size=1, max_size=3),
    threads=st.integers(1, 40),
    vector=st.sampled_from([1, 2, 4, 3]),
)
def test_free_mapping_owns_every_element_once(extents: list[int], threads: int, vector: int) -> None:
    fragment = parallel_fragment(extents, threads, vector)
    owned = [element for thread in range(threads) for element in fragment.owned_by(thread)]
    assert sorted(owned) == [tuple(map(int, index)) for index in np.ndindex(*extents)]
    assert fragment.local_extent <= -(-prod(extents) // (threads * vector)) * vector


def test_two_elements_in_one_register_are_refused() -> None:
    with pytest.raises(LayoutError, match="not injective"):
        Fragment((8,), forward_fn=lambda i: (i % 4, 0))


def test_repeat_on_registers_and_on_threads() -> None:
    base = Fragment((4,), forward_fn=lambda i: (i, 0))
    registers = base.repeat([3])
    assert (registers.threads, registers.local_extent) == (4, 3)
    assert registers.owned_by(1) == [(1,), (5,), (9,)]
    threads = base.repeat([3], repeat_on_thread=True)
    assert (threads.threads, threads.local_extent) == (12, 1)
    assert threads.owned_by(5) == [(5,)]


def test_repeat_order_of_axes() -> None:
    base = Fragment((2, 2), forward_fn=lambda i, j: (i * 2 + j, 0))
    assert base.repeat([2, 2]).owned_by(0) == [(0, 0), (2, 0), (0, 2), (2, 2)]
    assert base.repeat([2, 2], lower_dim_first=False).owned_by(0) == [(0, 0), (0, 2), (2, 0), (2, 2)]


def test_replication() -> None:
    base = Fragment((4,), forward_fn=lambda i: (i, 0))
    twice = base.replicate(2)
    assert twice.threads == 8 and twice.replicate_size == 2
    assert twice.owned_by(1) == twice.owned_by(5) == [(1,)]
    assert twice != base


def test_condense_drops_replicas_that_change_nothing() -> None:
    idle = Fragment((4,), forward_fn=lambda i, replica: (i + replica * 0, 0), replicate=3)
    assert idle.condense_rep_var() == Fragment((4,), forward_fn=lambda i: (i, 0))


def test_equality_ignores_the_order_of_replicas() -> None:
    up = Fragment((4,), forward_fn=lambda i, r: (i + 4 * r, 0), replicate=2)
    down = Fragment((4,), forward_fn=lambda i, r: (i + 4 * (1 - r), 0), replicate=2)
    assert up == down and hash(up) == hash(down)


def test_an_index_function_may_choose() -> None:
    layout = Layout((4, 8), lambda i, j: (i, tirx.if_then_else(i > 1, j, 7 - j)))
    expected = [[7 - j if i < 2 else j for j in range(8)] for i in range(4)]
    assert layout.table[:, :, 1].tolist() == expected
    assert layout.is_injective
