"""The group of commands: its own by a table, each loaded when it is used, and those that plugins add.

Answering `tile --version` or `tile errors` imports neither TVM nor a backend; plugins are loaded only for the list of
commands and for a name that is not in the table.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click

from tile_core.errors.base import TileError
from tile_core.errors.plugins import HookResultError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "cache": "tile_core.cli.cache",
        "check": "tile_core.cli.check",
        "compile": "tile_core.cli.compile",
        "env": "tile_core.cli.env",
        "errors": "tile_core.cli.errors",
        "plugins": "tile_core.cli.plugins",
        "targets": "tile_core.cli.targets",
    }
)
"""Each module has the command as its attribute `command`."""


class TileGroup(click.Group):
    """Commands of the table, then commands of plugins; a `TileError` ends the command with its text and status 1."""

    _extended = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, sorted."""
        self._extend()
        return sorted({*COMMANDS, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`, imported now."""
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
            return command
        self._extend()
        return self.commands.get(cmd_name)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a plugin's command.

        Raises:
            HookResultError: the name is taken.
        """
        wanted = name or cmd.name
        if wanted is None or wanted in COMMANDS or wanted in self.commands:
            raise HookResultError(f"the command {wanted!r} exists already", remedy="give the command another name")
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run; errors raised on purpose are shown without a traceback."""
        try:
            return super().invoke(ctx)
        except TileError as error:
            click.echo(f"error {error}", err=True)
            ctx.exit(1)

    def _extend(self) -> None:
        """Let plugins add their commands, one plugin at a time; one that fails is reported and left out."""
        if self._extended:
            return
        self._extended = True
        from tile_core.plugins import manager

        for hook in reversed(manager.hooks().tile_add_commands.get_hookimpls()):
            try:
                hook.function(self)
            except Exception as error:  # noqa: BLE001 - foreign code: it must not take the other commands away
                click.echo(f"warning: commands of {hook.plugin_name} are left out: {error}", err=True)


@click.group(cls=TileGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tile-core", prog_name="tile", message="%(prog)s %(version)s")
def cli() -> None:
    """Tile kernels: what this machine can compile for and run, and what the compiler makes of a kernel."""
