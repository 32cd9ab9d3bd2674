"""`tile plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tile_core.plugins.manager import Plugin, Registry


def state(plugin: Plugin, registry: Registry) -> str:
    """What became of a plugin: `loaded`, `hooks only`, `clash` or `failed`."""
    if plugin.error is not None:
        return "failed"
    if plugin.backend is None:
        return "hooks only"
    return "loaded" if plugin.backend.name in registry.backends() else "clash"


@click.command("plugins", short_help="List plugins and why one failed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the plugins that were found, with the traceback of each that failed.

    The exit status is 1 where a plugin failed or two plugins clash.
    """
    from tile_core.cli.table import show_json, show_table
    from tile_core.plugins import manager

    registry = manager.registry()
    states = {plugin: state(plugin, registry) for plugin in registry.plugins}
    if as_json:
        keys = ("name", "distribution", "version", "reference", "traceback")
        show_json([{**{key: getattr(p, key) for key in keys}, "state": text} for p, text in states.items()])
    else:
        header = ("plugin", "distribution", "version", "module", "state")
        show_table(header, [(p.name, p.distribution, p.version, p.reference, text) for p, text in states.items()])
        for plugin in registry.failures():
            click.echo(f"\n{plugin.name} ({plugin.origin}) failed to import:\n{plugin.traceback.rstrip()}")
        for message in registry.clashes():
            click.echo(f"\n{message}")
    if {"failed", "clash"} & set(states.values()):
        click.get_current_context().exit(1)
