"""What the examples share: their command line, and figures through matplotlib where it is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tile_core as tl


@dataclass(frozen=True)
class Options:
    """The target to run on, and the directory that figures go to."""

    target: Any
    figures: Path


def options(description: str | None, arguments: Sequence[str] | None) -> Options:
    """Read `--target` (default: the best present) and `--figures` (default: `figures` here)."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--target", default="auto", help="a target such as cpu or interpret")
    parser.add_argument("--figures", type=Path, default=Path("figures"), help="the directory for the figures")
    given = parser.parse_args(arguments)
    return Options(tl.select_target(given.target), given.figures)


def draw(path: Path, size: tuple[float, float], paint: Callable[[Any], None]) -> None:
    """Let `paint` draw on the axes of a new figure, and write it to `path`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"no {path.name}: figures need matplotlib (python -m pip install matplotlib)")
        return
    figure = Figure(figsize=size, layout="constrained")
    paint(figure.subplots())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"figure: {path}")
