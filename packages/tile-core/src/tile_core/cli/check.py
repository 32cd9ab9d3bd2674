"""`tile check`."""

from __future__ import annotations

import click


@click.command("check", short_help="Find what a kernel cannot contain, without running it.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Scan Python FILEs for constructs outside of what a traced function may contain.

    Nothing is imported or run. The exit status is 1 where something is found, 2 where a file cannot be read.
    """
    from tile_core.check.__main__ import main

    click.get_current_context().exit(main([*files, *(["--json"] if as_json else [])]))
