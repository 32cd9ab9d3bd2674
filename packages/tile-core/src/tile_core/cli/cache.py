"""`tile cache`."""

from __future__ import annotations

import click


@click.group("cache")
def command() -> None:
    """Look at the cache of compiled kernels, or empty it."""


@command.command("info")
def info() -> None:
    """Print where the cache is, whether it is used, and what it holds."""
    from tile_core.jit.cache import DiskCache
    from tile_core.settings import settings

    count, size = DiskCache(settings.cache_dir).usage()
    click.echo(f"directory  {settings.cache_dir}")
    click.echo(f"used       {'yes' if settings.cache else 'no (TILE_CACHE=0)'}")
    click.echo(f"kernels    {count}")
    click.echo(f"size       {size / 2**20:.1f} MiB")


@command.command("clear")
def clear() -> None:
    """Remove every kernel from the cache."""
    from tile_core.jit.cache import DiskCache
    from tile_core.settings import settings

    cache = DiskCache(settings.cache_dir)
    count, size = cache.usage()
    cache.clear()
    click.echo(f"removed {count} kernels ({size / 2**20:.1f} MiB) from {settings.cache_dir}")
