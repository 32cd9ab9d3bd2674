"""`targets.yaml`: what is read, and that every mistake is found with its line and column."""

from __future__ import annotations

import pytest

from tile_core.errors import TargetSpecError, TargetTableError
from tile_core.targets.table import parse_table

TABLE = """\
default: small
facts: {cores: int, formats: list}
common: {threads: true, warp_size: 32, formats: []}
architectures:
  small: {vector_bytes: 16, max_threads: 1024, dtypes: [float32, int32], cores: 1}
  large: {extends: small, vector_bytes: 32, shared_bytes: 65536, formats: [a, b]}
"""


def test_inheritance_and_defaults() -> None:
    table = parse_table(TABLE, "targets.yaml")
    small, large = table.capabilities(), table.capabilities("large")
    assert (small.threads, small.warp_size, small.max_threads, small.shared_bytes) == (True, 32, 1024, None)
    assert (large.vector_bytes, large.shared_bytes, large.fact("formats"), large.fact("cores")) == (
        32,
        65536,
        ["a", "b"],
        1,
    )
    with pytest.raises(TargetSpecError, match="huge") as caught:
        table.capabilities("huge")
    assert "small, large" in caught.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("cores: 1", "core: 1", "5:74", "unknown key 'core'"),
        ("vector_bytes: 32", "vector_bytes: wide", "6:41", "expected a whole number"),
        ("vector_bytes: 16", "vector_bytes: true", "5:25", "expected a whole number"),
        ("vector_bytes: 16", "vector_bytes: 0", "5:25", "at least 1"),
        ("extends: small", "extends: tiny", "6:20", "not listed above"),
        ("cores: int", "cores: integer", "2:16", "'integer'"),
        ("{cores: int", "{threads: int", "2:9", "name of a field"),
        ("default: small", "default: tiny", "1:10", "'tiny'"),
        ("default: small\n", "", "1:1", "default"),
        (", cores: 1", "", "5:3", "does not state cores"),
        ("vector_bytes: 16, ", "", "5:3", "does not state vector_bytes"),
        ("threads: true", "threads: false", "5:3", "must be 1"),
        ("[float32, int32]", "float32", "5:56", "list of dtype names"),
        ("large:", "small:", "6:3", "twice"),
        ("shared_bytes: 65536", "shared_bytes: 65536, shared_bytes: 1", "6:66", "twice"),
        ("common: {", "commmon: {", "3:1", "unknown key 'commmon'"),
        ("  large: {", "  large: [", "6:81", "not valid YAML"),
        ("formats: [a, b]", "formats: !!python/tuple [a]", "6:75", "not a plain value"),
    ],
)
def test_mistakes_are_found_where_they_are(old: str, new: str, place: str, words: str) -> None:
    assert old in TABLE
    with pytest.raises(TargetTableError) as caught:
        parse_table(TABLE.replace(old, new, 1), "targets.yaml")
    assert caught.value.message.startswith(f"targets.yaml:{place}:"), caught.value.message
    assert words in caught.value.message


@pytest.mark.parametrize("text", ["", "- a\n", "default: x\narchitectures: {}\n", "architectures: 3\ndefault: x\n"])
def test_files_of_another_form(text: str) -> None:
    with pytest.raises(TargetTableError, match=r"targets.yaml:\d+:\d+: "):
        parse_table(text, "targets.yaml")
