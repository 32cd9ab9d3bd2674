"""How much of a SIMT backend's printer stands in another's too, of each two and either way: under 15 % of its lines.

    python benchmarks/shared_lines.py

Compared are the modules that print and the headers of the emulator, line by line, without indentation. Imports, the
bare ends of conditional text (`#else`) and lines without a letter or digit do not count. What both need belongs into
`tile_core.printer` and `tile_core.emulator`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
BACKENDS = ("cuda", "rocm", "metal", "ascend")
LIMIT = 0.15
_SILENT = re.compile(r"(from \S+ )?import |#(else|endif|pragma once)")
PARTS = {
    "printer": (
        "printer.py",
        "words.py",
        "exchanges.py",
        "functions.py",
        "atomics.py",
        "narrow.py",
        "launches.py",
        "cube.py",
    ),
    "emulator headers": ("emulator/include/*.h",),
}


def lines(package: str, patterns: Iterable[str]) -> list[str]:
    """The lines of a backend's files that say something."""
    root = PACKAGES / f"tile-{package}" / "src" / f"tile_{package}"
    files = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    stripped = [line.strip() for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in stripped if re.search(r"\w", line) and not _SILENT.match(line)]


def share(own: list[str], other: list[str]) -> float:
    """The part of `own` that also stands in `other`."""
    found = set(other)
    return sum(line in found for line in own) / max(1, len(own))


def main() -> int:
    """Print the shares; 1 if one of them is at the limit or above."""
    worst = 0.0
    for part, patterns in PARTS.items():
        found = {backend: lines(backend, patterns) for backend in BACKENDS}
        for one, other in permutations(BACKENDS, 2):
            part_of_one = share(found[one], found[other])
            worst = max(worst, part_of_one)
            where = f"of the {len(found[one])} lines of tile-{one} stand in tile-{other}"
            sys.stdout.write(f"{part}: {part_of_one:.1%} {where}\n")
    sys.stdout.write(f"the bar is {LIMIT:.0%}\n")
    return int(worst >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
