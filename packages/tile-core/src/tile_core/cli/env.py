"""`tile env`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tile_core.settings import Setting, Settings


def groups() -> list[Settings]:
    """The settings of core, then those of every backend that has some."""
    from tile_core.plugins import manager
    from tile_core.settings import settings

    references = [backend.settings for backend in manager.backends().values() if backend.settings is not None]
    return [settings, *map(manager.resolve, references)]


def value(group: Settings, setting: Setting[Any]) -> tuple[str, str]:
    """The current value as text, and the complaint where it is not accepted."""
    from tile_core.errors.plugins import SettingError

    try:
        current = getattr(group, setting.name)
    except SettingError as error:
        return "invalid", error.message
    return ("" if current is None else str(int(current)) if isinstance(current, bool) else str(current)), ""


@click.command("env", short_help="Print the settings and their values.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Print the settings: environment variables, their values and where these come from.

    The exit status is 1 where a variable holds a value that is not accepted.
    """
    from tile_core.cli.table import show_json

    entries = []
    for group in groups():
        for setting in group.all():
            text, complaint = value(group, setting)
            entries.append(
                {
                    "variable": setting.variable,
                    "value": text,
                    "source": group.source(setting),
                    "accepted": setting.kind.accepted,
                    "changes_code": setting.changes_code,
                    "doc": setting.doc,
                    "error": complaint,
                }
            )
    show_json(entries) if as_json else _show(entries)
    if any(entry["error"] for entry in entries):
        click.get_current_context().exit(1)


def _show(entries: list[dict[str, Any]]) -> None:
    from tile_core.cli.table import show_table

    header = ("variable", "value", "from", "meaning")
    show_table(header, [(e["variable"], e["value"] or "(not set)", e["source"], e["doc"]) for e in entries])
    for entry in entries:
        if entry["error"]:
            click.echo(f"\nerror: {entry['error']}", err=True)
