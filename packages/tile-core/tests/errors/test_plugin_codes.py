"""One program for every code of plugins, targets, settings, the printer base and the command line: what it names."""

from __future__ import annotations

import importlib

import pytest
from click.testing import CliRunner

from tile_core.errors import plugins as codes
from tile_core.plugins import manager
from tile_core.testing.codes import Program, inside, refuse

TABLE = """
from tile_core.targets.table import parse_table
parse_table("default: small", "targets.yaml")
"""
EDIT = """
from tile_core.plugins import hookimpl

@hookimpl
def tile_edit_pipeline(target, pipeline):
    return 3
"""

PROGRAMS = {
    "BackendAttributeError": Program('manager.resolve("math:no_such_thing")', "'math:no_such_thing'"),
    "BackendClashError": Program(
        'install("tile-first", "same")\ninstall("tile-second", "same")\nmanager.backend("same")', "tile-first 1.2"
    ),
    "BackendImportError": Program(
        """install("tile-bad", "bad", "import a_module_that_is_not_there")\nmanager.backend("bad")""", "tile-bad 1.2"
    ),
    "BackendManifestError": Program(
        """
from tile_core.plugins import Backend
Backend(name="one", target_kinds=("one",), dialect="one", detect="no colon", parse_target="m:p", capabilities="m:c",
        compiler="m:c", runtime="m:r")
""",
        "detect",
    ),
    "BackendNotInstalledError": Program('install("tile-one", "one")\nmanager.backend("cuda")', "'cuda'"),
    "CapabilityError": Program(
        """
from tile_core.targets import Capabilities
Capabilities(vector_bytes=16, dtypes=frozenset()).fact("cores")
""",
        "'cores'",
    ),
    "CommandLineError": Program('run("compile", "nothing.py:make")', "'nothing.py'"),
    "HookResultError": Program(
        f"install('tile-one', 'one', extra='''{EDIT}''')\nmanager.plugin_edits(None, ())", "tile_edit_pipeline"
    ),
    "NoTargetError": Program(
        """
install("tile-bad", "bad", "raise RuntimeError('broken')")
tl.select_target("auto")
""",
        "bad: failed to import (tile-bad 1.2)",
    ),
    "SettingError": Program(
        'monkeypatch.setenv("TILE_DEBUG", "loud")\nfrom tile_core.settings import settings\nsettings.debug', "'loud'"
    ),
    "TargetSpecError": Program('tl.select_target({"arch": "host"})', "{'arch': 'host'}"),
    "TargetTableError": Program(TABLE, "targets.yaml:1:1"),
    "UnknownTargetError": Program('tl.select_target("webgpu")', "'webgpu'"),
    "UnprintableError": Program(
        inside(
            "A[T.get_thread_binding()] = 1  # HERE",
            then="""
            from tile_core.printer import print_function
            from tile_core.printer.c import C
            print_function(kernel, C, target="toy")
            """,
        ),
        "thread index x",
    ),
}


def run(command, *arguments):
    """Run a command of `tile` by itself, which lets its error through."""
    module = importlib.import_module(f"tile_core.cli.{command}")
    raised = CliRunner().invoke(module.command, list(arguments)).exception
    if raised is not None:
        raise raised


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch, install):
    refuse(
        getattr(codes, name),
        PROGRAMS[name],
        {"monkeypatch": monkeypatch, "install": install, "manager": manager, "run": run},
    )
