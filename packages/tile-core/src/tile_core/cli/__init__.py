"""The command `tile`."""

from __future__ import annotations


def main() -> None:
    """Entry point of the command `tile`."""
    from tile_core.cli.app import cli

    cli(prog_name="tile")
