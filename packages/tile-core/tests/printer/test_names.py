"""Names in printed source."""

from __future__ import annotations

import pytest

from tile_core.printer.names import Names, legal


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A", "A"),
        ("A.local", "A_local"),
        ("a__b", "a_b"),
        ("_x", "x"),
        ("3d", "v3d"),
        ("λ", "v"),
        ("x'", "x"),
        ("", "v"),
    ],
)
def test_legal(name: str, expected: str) -> None:
    assert legal(name) == expected


def test_names_are_unique_within_nested_scopes_and_free_after_them() -> None:
    names = Names(frozenset({"for"}))
    assert names.declare("outer", "i") == "i"
    with names.scope():
        assert names.declare("inner", "i") == "i_1"
        assert names.declare("word", "for") == "for_1"
        assert names.get("outer") == "i"
    assert names.get("inner") is None
    assert names.declare("later", "i_1") == "i_1"


def test_a_numbered_name_of_the_author_is_not_taken_twice() -> None:
    names = Names(frozenset())
    assert [names.declare(n, hint) for n, hint in enumerate(("x_1", "x", "x"))] == ["x_1", "x", "x_2"]


def test_a_variable_declared_again_has_its_first_name_back_behind_the_block() -> None:
    names, var = Names(frozenset()), object()
    assert names.declare(var, "n") == "n"
    with names.scope():
        assert names.declare(var, "n") == "n_1"
        assert names.declare(var, "n") == "n_2"
        assert names.get(var) == "n_2"
    assert names.get(var) == "n"
