"""`python -m tile_core.check FILE …`: scan files, print what is found, exit with 1 if anything is."""

from __future__ import annotations

import argparse
import sys

from tile_core.check import scan


def main(arguments: list[str] | None = None) -> int:
    """Scan the files; 1 if something is found, 2 if a file cannot be read or is no Python."""
    parser = argparse.ArgumentParser(prog="python -m tile_core.check", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    status = 0
    for file in parser.parse_args(arguments).files:
        try:
            found = scan(file)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            sys.stderr.write(f"{file}: {error}\n")
            status = 2
            continue
        for each in found:
            sys.stdout.write(f"{each}\n")
        status = max(status, int(bool(found)))
    return status


if __name__ == "__main__":
    sys.exit(main())
