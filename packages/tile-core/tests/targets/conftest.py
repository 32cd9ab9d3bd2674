"""The made-up plugin distributions of the plugin tests, for target selection too."""

from __future__ import annotations

from pathlib import Path

from tile_core.testing.scripts import load_script

_path = Path(__file__).parents[1] / "plugins" / "conftest.py"
_fixtures = load_script(_path)
install = _fixtures.install
