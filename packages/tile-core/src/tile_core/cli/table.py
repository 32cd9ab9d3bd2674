"""Aligned columns, and JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header, columns as wide as their widest entry."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))
