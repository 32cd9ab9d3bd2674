"""`tile errors`."""

from __future__ import annotations

import importlib
import inspect
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tile_core.errors.base import TileError

KINDS = {
    "invalid": "the program, or what was asked for, is not valid",
    "unsupported": "the target cannot do this",
    "unimplemented": "not implemented yet",
    "environment": "something on this machine is missing or set wrongly",
}


def load_plugin_errors() -> None:
    """Import the errors of every backend: each keeps its own in the module `errors` of its package."""
    from tile_core.plugins import manager

    for plugin in manager.registry().plugins:
        package = plugin.reference.partition(":")[0].partition(".")[0]
        with suppress(ImportError):
            importlib.import_module(f"{package}.errors")


def error_classes() -> dict[str, type[TileError]]:
    """Every error by its code."""
    from tile_core import errors

    load_plugin_errors()
    found: dict[str, type[TileError]] = {}
    pending: list[type[TileError]] = [errors.TileError]
    while pending:
        for subclass in pending.pop().__subclasses__():
            pending.append(subclass)
            if "code" in vars(subclass):
                found[subclass.code] = subclass
    return dict(sorted(found.items()))


def builtin_bases(kind: type[TileError]) -> list[str]:
    """The builtin exceptions under which an error can be caught."""
    return [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins" and base not in _ROOTS]


_ROOTS = (Exception, BaseException, object)


@click.command("errors", short_help="Explain an error code.")
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Explain an error code such as TILE-E0402 or E0402; without CODE, list all of them.

    The codes of plugins begin with their own name, such as TILE-TOY-E01.
    """
    classes = error_classes()
    if code is None:
        for known, kind in classes.items():
            click.echo(f"{known}  {_summary(kind)}")
        return
    given = code.strip().upper()
    wanted = given if given in classes else f"TILE-E{re.sub(r'^(TILE-)?E?', '', given)}"
    if wanted not in classes:
        raise click.BadParameter(f"there is no code {code!r}; `tile errors` lists all of them")
    found = classes[wanted]
    bases = ", ".join(["tile_core.errors.TileError", *builtin_bases(found)])
    click.echo(f"{wanted}  {found.__name__}\n{KINDS[found.kind]}\n\n{inspect.getdoc(found)}\n\ncaught as: {bases}")


def _summary(kind: type[TileError]) -> str:
    return (inspect.getdoc(kind) or kind.__name__).splitlines()[0]
