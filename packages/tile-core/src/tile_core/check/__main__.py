"""`python -m tile_core.check FILE …`: scan files, print what is found, exit with 1 if anything is."""

from __future__ import annotations

import argparse
import json
import sys

from tile_core.check import scan
from tile_core.errors.base import TileError


def main(arguments: list[str] | None = None) -> int:
    """Scan the files; 1 if something is found, 2 if a file cannot be read or is no Python."""
    parser = argparse.ArgumentParser(
        prog="python -m tile_core.check",
        description="Find what a traced function cannot contain, without importing or running anything.",
        epilog="The exit status is 1 where something is found, 2 where a file cannot be read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Python file")
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of text")
    options = parser.parse_args(arguments)
    found: list[TileError] = []
    status = 0
    for file in options.files:
        try:
            found += scan(file)
        except (OSError, SyntaxError, ValueError) as error:
            sys.stderr.write(f"{file}: {error}\n")
            status = 2
    if options.json:
        sys.stdout.write(json.dumps([as_dict(error) for error in found], indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{as_text(error)}\n" for error in found)
    return max(status, int(bool(found)))


def as_text(error: TileError) -> str:
    """The place in the form that editors follow, then the error as the front end shows it."""
    where = "" if error.span is None else f"{error.span.file}:{error.span.line}:{error.span.column + 1}: "
    return f"{where}{error}"


def as_dict(error: TileError) -> dict[str, object]:
    """An error as JSON values: `file`, `line` and `column` count from 1, as editors do."""
    span = error.span
    return {
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column + 1 if span else None,
        "end_line": span.end_line if span else None,
        "end_column": span.end_column + 1 if span else None,
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy,
    }


if __name__ == "__main__":
    sys.exit(main())
