"""The command `tile`."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tile_core.cli.app import COMMANDS, TileGroup, cli
from tile_core.plugins import Backend, manager

KERNELS = """
import tile_core as tl
import tile_core.language as T

def double(n: int, dtype: str = "float32"):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 32)) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + A[bx * 32 + i]
    return main

jitted = tl.jit(double)
number = 7

def broken():
    return 3
"""


@pytest.fixture
def tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    runner = CliRunner()

    def run(*arguments: str) -> Any:
        return runner.invoke(cli, arguments, prog_name="tile")

    return run


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "some_kernels.py"
    path.write_text(KERNELS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield str(path)
    sys.modules.pop("some_kernels", None)


def test_help_lists_every_command(tile: Any) -> None:
    result = tile("--help")
    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.output for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(tile: Any, name: str) -> None:
    result = tile(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: tile {name}" in result.output
    assert importlib.import_module(COMMANDS[name]).command.help


def test_the_examples_of_a_command_stand_on_lines_of_their_own(tile: Any) -> None:
    lines = tile("compile", "--help").output.splitlines()
    assert "    tile compile matmul.py:matmul --stage lower_tile_ops --target cpu" in lines


def test_version(tile: Any) -> None:
    from importlib.metadata import version

    assert tile("--version").output.strip() == f"tile {version('tile-core')}"


def test_version_errors_and_env_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tile_core.cli.app import cli\n"
        "for line in (['--version'], ['env'], ['errors', 'E0401'], ['--help']):\n"
        "    cli(line, standalone_mode=False)\n"
        "heavy = {'tvm', 'torch', 'numpy'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_targets_shows_state_and_reason(tile: Any) -> None:
    result = tile("targets")
    assert result.exit_code == 0
    rows = {row["backend"]: row for row in json.loads(tile("targets", "--json").output)}
    assert set(rows) == {plugin.name for plugin in manager.registry().plugins}
    assert sum(row["chosen"] for row in rows.values()) <= 1
    for row in rows.values():
        assert row["reason"]
        assert row["backend"] in result.output
        assert row["available"] or not row["chosen"]


def test_plugins(tile: Any) -> None:
    result = tile("plugins")
    states = {row["name"]: row["state"] for row in json.loads(tile("plugins", "--json").output)}
    assert set(states) == {plugin.name for plugin in manager.registry().plugins}
    assert result.exit_code == (0 if set(states.values()) <= {"loaded", "hooks only"} else 1)


def test_env_prints_values_and_fails_on_a_wrong_one(tile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_DEBUG", "3")
    entries = {entry["variable"]: entry for entry in json.loads(tile("env", "--json").output)}
    assert (entries["TILE_DEBUG"]["value"], entries["TILE_DEBUG"]["source"]) == ("3", "environment")
    assert tile("env").exit_code == 0
    monkeypatch.setenv("TILE_DEBUG", "loud")
    result = tile("env")
    assert result.exit_code == 1
    assert "TILE_DEBUG is 'loud'" in result.stderr
    assert "TILE_CACHE_DIR" in result.stdout


@pytest.mark.parametrize("code", ["TILE-E0404", "E0404", "0404", "e0404", "tile-e0404"])
def test_errors_explains_a_code(tile: Any, code: str) -> None:
    result = tile("errors", code)
    assert result.exit_code == 0
    assert "BackendClashError" in result.output
    assert "Two installed distributions" in result.output
    assert "ValueError" in result.output


def test_errors_lists_all_codes_once(tile: Any) -> None:
    lines = tile("errors").output.splitlines()
    codes = [line.split()[0] for line in lines]
    assert codes == sorted(set(codes))
    assert "TILE-E0401" in codes
    assert tile("errors", "E9999").exit_code == 2


def test_compile_shows_stages_source_and_time(tile: Any, kernels: str) -> None:
    traced = tile("compile", f"{kernels}:double", "-s", "n=100", "--stage", "program", "-t", "cpu")
    assert traced.exit_code == 0, traced.output
    assert "100" in traced.output
    assert "blockIdx.x" in traced.output
    lowered = tile("compile", f"{kernels}:jitted", "-s", "n=100", "-s", "dtype=float64", "--stage", "lower_tile_ops")
    assert lowered.exit_code == 0, lowered.output
    assert "float64" in lowered.output
    source = tile("compile", f"{kernels}:double", "-s", "n=100", "--show-source")
    assert source.exit_code == 0, source.output
    compiled = tile("compile", f"{kernels}:double", "-s", "n=100", "--report")
    assert compiled.exit_code == 0, compiled.output
    assert " ms" in compiled.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("{file}:nothing",), "has no 'nothing'"),
        (("{file}:number",), "gives int"),
        (("{file}:broken",), "gives int"),
        (("{file}",), "is not FILE:FACTORY"),
        (("absent.py:f",), "no file 'absent.py'"),
        (("{file}:double", "-s", "n"), "is not NAME=VALUE"),
        (("{file}:double", "-s", "n=8", "--stage", "no_such_pass", "-t", "cpu"), "lower_tile_ops"),
        (("{file}:double", "-s", "n=8", "-t", "nonsense"), "no backend compiles"),
    ],
)
def test_compile_refuses_with_a_coded_error_and_status_1(tile: Any, kernels: str, arguments: Any, words: str) -> None:
    result = tile("compile", *(argument.format(file=kernels) for argument in arguments))
    assert result.exit_code == 1
    assert result.stderr.startswith("error TILE-E")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_cache_info_and_clear(tile: Any, kernels: str) -> None:
    assert "kernels    0" in tile("cache", "info").output
    assert tile("compile", f"{kernels}:double", "-s", "n=64", "-t", "cpu").exit_code == 0
    assert "kernels    1" in tile("cache", "info").output
    assert "removed 1 kernels" in tile("cache", "clear").output
    assert "kernels    0" in tile("cache", "info").output


class _Commands:
    """A plugin that adds commands."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def build(self) -> Any:
        from tile_core.plugins import hookimpl

        names = self.names

        class Module:
            @hookimpl
            def tile_add_commands(self, cli: click.Group) -> None:
                for name in names:
                    cli.add_command(click.Command(name, callback=lambda: click.echo("from a plugin"), help="Hello."))

        return Module()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`group(plugin, …)`: the commands of a process with these plugins."""

    def build(**plugins: _Commands) -> Any:
        registry = manager.load([])
        for name, plugin in plugins.items():
            registry.manager.register(plugin.build(), name)
        monkeypatch.setattr(manager, "registry", lambda: registry)
        return TileGroup("tile", context_settings=cli.context_settings)

    return build


def test_plugins_add_commands(group: Any) -> None:
    made = group(toy=_Commands("toy"))
    runner = CliRunner()
    assert "toy" in runner.invoke(made, ["--help"]).output
    assert runner.invoke(made, ["toy"]).output == "from a plugin\n"


@pytest.mark.parametrize("taken", ["env", "toy"])
def test_a_taken_command_is_refused_and_the_rest_goes_on(group: Any, taken: str) -> None:
    made = group(aaa=_Commands("toy"), bbb=_Commands(taken, "later"))
    result = CliRunner().invoke(made, ["toy"])
    assert result.exit_code == 0
    assert "from a plugin" in result.stdout
    assert f"the command {taken!r} exists already" in result.stderr


def test_manifests_and_settings_of_backends_are_shown(tile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend(
        name="toy", target_kinds=("toy",), dialect="m", detect="m:d", parse_target="m:p", capabilities="m:c",
        compiler="m:c", runtime="m:r", settings="tile_core.settings:settings",
    )  # fmt: skip
    monkeypatch.setattr(manager, "backends", lambda: {"toy": backend})
    entries = json.loads(tile("env", "--json").output)
    assert [entry["variable"] for entry in entries].count("TILE_CACHE") == 2
