"""What a user sees when plugins are missing, broken or in each other's way: really installed, in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2]
Installed = Callable[..., Path]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`installed("tile-broken", …)`: a directory into which pip has installed these plugins."""
    made: dict[tuple[str, ...], Path] = {}

    def install(*names: str) -> Path:
        if names not in made:
            target = tmp_path_factory.mktemp("-".join(names))
            options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
            folders = [str(PLUGINS / name) for name in names]
            command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), *folders]
            subprocess.run(command, check=True)
            made[names] = target
        return made[names]

    return install


def run(code: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python code in a fresh process that also sees the plugins installed in `path`."""
    environment = {**os.environ, **variables}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False, timeout=120
    )


def tile(*arguments: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command `tile` in a fresh process."""
    return run(
        f"import sys; sys.argv = ['tile', *{arguments!r}]; from tile_core.cli import main; main()", path, **variables
    )


CHOOSE = "from tile_core.targets import select_target; print(select_target({!r}).backend)"


def test_installed_toy_is_found() -> None:
    assert run(CHOOSE.format("toy")).stdout.strip() == "toy"
    rows = {row["backend"]: row for row in json.loads(tile("targets", "--json").stdout)}
    assert rows["toy"]["origin"] == "tile-toy 0.1.0"
    assert not rows["toy"]["chosen"]


def test_a_broken_plugin_leaves_the_others_alone(installed: Installed) -> None:
    path = installed("tile-broken")
    assert run(CHOOSE.format("toy"), path).stdout.strip() == "toy"
    assert run(CHOOSE.format("auto"), path).returncode == 0


def test_asking_for_the_broken_plugin_names_its_distribution_and_cause(installed: Installed) -> None:
    done = run(CHOOSE.format("broken"), installed("tile-broken"))
    assert done.returncode == 1
    assert "BackendImportError" in done.stderr
    assert "the backend 'broken' is installed (tile-broken 0.3.0) but failed to import" in done.stderr
    assert "driver_that_is_not_installed" in done.stderr


def test_strict_fails_at_once(installed: Installed) -> None:
    done = run(CHOOSE.format("toy"), installed("tile-broken"), TILE_PLUGINS_STRICT="1")
    assert done.returncode == 1
    assert "tile-broken 0.3.0" in done.stderr


def test_the_command_lists_the_traceback_of_a_broken_plugin(installed: Installed) -> None:
    done = tile("plugins", path=installed("tile-broken"))
    assert done.returncode == 1
    assert "Traceback" in done.stdout
    assert "tile_broken/plugin.py" in done.stdout
    assert "driver_that_is_not_installed" in tile("targets", path=installed("tile-broken")).stdout


def test_a_clash_names_both_distributions(installed: Installed) -> None:
    path = installed("tile-clash")
    done = run(CHOOSE.format("toy"), path)
    assert done.returncode == 1
    assert "BackendClashError" in done.stderr
    assert "tile-toy 0.1.0" in done.stderr
    assert "tile-clash 0.4.0" in done.stderr
    assert run(CHOOSE.format("auto"), path).stdout.strip() not in ("", "toy")
    listed = tile("plugins", path=path)
    assert listed.returncode == 1
    assert listed.stdout.count(" clash\n") == 2


def test_not_installed_is_another_message() -> None:
    code = (
        "from importlib import metadata; from tile_core.plugins import manager;"
        "real = metadata.entry_points(group=manager.GROUP);"
        "registry = manager.load([p for p in real if p.name != 'toy']);"
        "registry.backend('toy')"
    )
    done = run(code)
    assert "BackendNotInstalledError" in done.stderr
    assert "failed to import" not in done.stderr
