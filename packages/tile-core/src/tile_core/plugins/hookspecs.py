"""The hooks a plugin may implement, all of them optional.

A plugin is the object that an entry point of the group `tile.backends` names, usually a module; its hook functions
carry `@hookimpl`. Plugins are called in the alphabetical order of their entry points, so that a result never depends on
the order of installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click
    from tvm import tirx

    from tile_core.passes.base import Edit, Pass
    from tile_core.plugins.manifest import Backend
    from tile_core.targets.target import Target

PROJECT = "tile"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def tile_register_backend() -> Backend | None:
    """The backend that this plugin brings. Called once; must not import anything heavy."""


@hookspec
def tile_edit_pipeline(target: Target, pipeline: tuple[Pass, ...]) -> tuple[Edit, ...] | None:
    """Edits to the pipeline of `target`, applied after the backend's own. `pipeline` is what they apply to."""


@hookspec
def tile_before_pass(name: str, func: tirx.PrimFunc, target: Target) -> None:
    """Called before the pass `name` runs on `func`. For observation: what it returns is not used."""


@hookspec
def tile_after_pass(name: str, func: tirx.PrimFunc, target: Target) -> None:
    """Called with the result of the pass `name`."""


@hookspec
def tile_add_commands(cli: click.Group) -> None:
    """Add commands to `tile`: `cli.add_command(command)`. A name that is already taken is refused."""
