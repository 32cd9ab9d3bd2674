"""Installs made-up plugin distributions into a temporary directory on `sys.path`."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tile_core.plugins import manager

Install = Callable[..., None]

MANIFEST = """
from tile_core.plugins import Backend, hookimpl

@hookimpl
def tile_register_backend():
    return Backend(
        name={name!r}, target_kinds={kinds!r}, dialect="{module}", detect="{module}:detect",
        parse_target="{module}:parse", capabilities="{module}:capabilities",
        compiler="{module}:compile", runtime="{module}:load",
    )
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(distribution, name, source=…)`: a distribution whose entry point `name` is a module with `source`.

    Without `source` the module registers a well-formed backend of that name for the target kinds `kinds`.
    """
    modules: list[str] = []
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(manager, "GROUP", "tile.backends.test")

    def add(
        distribution: str, name: str, source: str | None = None, *, kinds: tuple[str, ...] = (), extra: str = ""
    ) -> None:
        module = distribution.replace("-", "_") + "_plugin"
        modules.append(module)
        text = MANIFEST.format(name=name, kinds=kinds or (name,), module=module) if source is None else source
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(text) + textwrap.dedent(extra), encoding="utf-8")
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[tile.backends.test]\n{name} = {module}\n", encoding="utf-8")
        importlib.invalidate_caches()
        manager.refresh()

    yield add
    for module in modules:
        sys.modules.pop(module, None)
    manager.refresh()
    manager.resolve.cache_clear()
