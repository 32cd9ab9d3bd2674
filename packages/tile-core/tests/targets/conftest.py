"""The made-up plugin distributions of the plugin tests, for target selection too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[1] / "plugins" / "conftest.py"
_spec = importlib.util.spec_from_file_location("plugin_fixtures", _path)
assert _spec is not None and _spec.loader is not None
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
install = _fixtures.install
