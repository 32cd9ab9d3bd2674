"""The made-up plugin distributions of the plugin tests, and the facade of the compatibility tests."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tile_core.testing.scripts import load_script


def _fixtures(folder: str) -> ModuleType:
    path = Path(__file__).parents[1] / folder / "conftest.py"
    return load_script(path)


install = _fixtures("plugins").install
_compat = _fixtures("compat")
host = _compat.host
tilelang = _compat.tilelang
