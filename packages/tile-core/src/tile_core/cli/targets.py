"""`tile targets`."""

from __future__ import annotations

from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Row:
    """One installed backend. `chosen`: what `target="auto"` takes on this machine."""

    backend: str
    kinds: tuple[str, ...]
    origin: str
    available: bool
    chosen: bool
    reason: str


def rows() -> list[Row]:
    """Every plugin that claims a backend, with the state of its hardware or the reason why it cannot be used."""
    from tile_core.plugins import manager

    registry = manager.registry()
    chosen = _chosen()
    found = []
    for plugin in registry.plugins:
        if plugin.backend is None and plugin.error is None:
            continue
        kinds = () if plugin.backend is None else plugin.backend.target_kinds
        state = manager.detection(plugin.name)
        available = state.available and plugin.name in registry.backends()
        found.append(Row(plugin.name, kinds, plugin.origin, available, plugin.name == chosen, state.reason))
    return found


def _chosen() -> str:
    from tile_core.errors.plugins import NoTargetError
    from tile_core.targets.select import automatic_backend

    try:
        return automatic_backend()
    except NoTargetError:
        return ""


@click.command("targets", short_help="List backends and what can run here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the installed backends, and which of them can run on this machine.

    A backend without its hardware still compiles. `*` marks the backend that target "auto" takes.
    """
    from tile_core.cli.table import show_json, show_table

    found = rows()
    if as_json:
        show_json([vars(row) for row in found])
        return
    header = ("", "backend", "targets", "distribution", "runs here", "reason")
    show_table(
        header,
        [
            (
                "*" if row.chosen else "",
                row.backend,
                ", ".join(row.kinds) or "?",
                row.origin,
                "yes" if row.available else "no",
                row.reason.splitlines()[0] if row.reason else "",
            )
            for row in found
        ],
    )
