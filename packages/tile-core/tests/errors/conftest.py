"""The made-up plugin distributions of the plugin tests, and the facade of the compatibility tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _fixtures(folder: str) -> ModuleType:
    path = Path(__file__).parents[1] / folder / "conftest.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = _fixtures("plugins").install
_compat = _fixtures("compat")
host = _compat.host
tilelang = _compat.tilelang
