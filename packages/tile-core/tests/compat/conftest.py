"""A process in which `tilelang` stands for this language, for the length of a test."""

from __future__ import annotations

import pytest

import tile_core as tl
from tile_core import errors
from tile_core.compat.tilelang import table
from tile_core.compat.tilelang.devices import device_mode
from tile_core.compat.tilelang.finder import installed

# Scripts that the tests run in the runner's conditions; outside of it there is no `tilelang` to import.
collect_ignore_glob = ["programs/*"]


@pytest.fixture
def host(monkeypatch):
    """The target that every machine has."""
    try:
        chosen = tl.select_target("cpu")
    except errors.TileError as error:
        pytest.skip(error.message)
    monkeypatch.setenv("TILE_TARGET", chosen.kind)
    return chosen


@pytest.fixture
def tilelang(host, monkeypatch, tmp_path):
    """The facade of the package, in the runner's conditions with `--target cpu`."""
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILE_CACHE", "1")
    monkeypatch.setattr(table, "_said", set())
    with installed(), device_mode():
        import tilelang

        yield tilelang
