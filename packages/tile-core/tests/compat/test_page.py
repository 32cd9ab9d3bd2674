"""`docs/migrating.md` lists what the runner leaves out, with the reasons that the runner gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_core.compat.tilelang.table import table

PAGE = Path(__file__).parents[4] / "docs" / "migrating.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


def row(name):
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if f"`{name}`" in line and line.startswith("|")]
    assert lines, name
    return "\n".join(lines)


@pytest.mark.parametrize("name", table().absent)
def test_absent_names(name):
    assert table().absent[name] in row(name)


@pytest.mark.parametrize("key", [config.key for config in table().pass_configs.values() if not config.inside])
def test_pass_configs(key):
    config = table().by_key[key]
    assert ((config.flags or config.switch) and key in PAGE.read_text("utf-8")) or config.why in row(key)


@pytest.mark.parametrize("name", table().variables)
def test_variables(name):
    variable = table().variables[name]
    assert (variable.to or variable.why) in row(name)
