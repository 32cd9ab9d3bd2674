"""`python -m tile_core.spec [dialect …] [--list]`: the coverage report."""

from __future__ import annotations

import argparse
import sys
import textwrap

from tile_core.spec import MODULES, Coverage, coverage

_KINDS = ("present", "refused", "unimplemented", "missing")
_TITLES = {"present": "present", "refused": "refused by design", "unimplemented": "not yet", "missing": "missing"}


def main(arguments: list[str] | None = None) -> int:
    """Print the report; 1 if a name is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m tile_core.spec",
        description="How much of the published language each dialect has.",
        epilog="The exit status is 1 where a name is missing.",
    )
    known = f"one of {', '.join(MODULES)}; by default all that are installed"
    parser.add_argument("dialects", nargs="*", choices=[*MODULES, []], default=[], metavar="DIALECT", help=known)
    parser.add_argument("--list", action="store_true", help="also list the names that are not present")
    options = parser.parse_args(arguments)
    rows = [found for name in options.dialects or MODULES if (found := _coverage(name)) is not None]
    sys.stdout.write(report(rows, listing=options.list))
    return int(any(row.missing for row in rows))


def report(rows: list[Coverage], *, listing: bool) -> str:
    """The table, one dialect a line, and the names behind it."""
    header = ["dialect", "names", *_TITLES.values()]
    lines = [_line(header), _line(["-" * len(title) for title in header])]
    lines += [_line([row.dialect, str(row.total), *(str(len(getattr(row, kind))) for kind in _KINDS)]) for row in rows]
    if listing:
        for row in rows:
            for kind in _KINDS[1:]:
                lines += _names(f"{row.dialect}: {_TITLES[kind]}", getattr(row, kind))
    return "\n".join(lines) + "\n"


def _coverage(dialect: str) -> Coverage | None:
    try:
        return coverage(dialect)
    except ModuleNotFoundError as error:
        if error.name is not None and MODULES[dialect].startswith(error.name):
            sys.stderr.write(f"{dialect}: {MODULES[dialect]} is not installed\n")
            return None
        raise


def _line(cells: list[str]) -> str:
    return "  ".join(cell.ljust(17 if column > 1 else 8) for column, cell in enumerate(cells)).rstrip()


def _names(title: str, names: tuple[str, ...]) -> list[str]:
    if not names:
        return []
    return [
        "",
        f"{title} ({len(names)})",
        *textwrap.wrap(", ".join(names), 110, initial_indent="  ", subsequent_indent="  "),
    ]


if __name__ == "__main__":
    sys.exit(main())
