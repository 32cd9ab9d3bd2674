"""Switching the kernel cache from a program, for those who would rather not set environment variables."""

from __future__ import annotations

import os
from pathlib import Path

from tile_core.settings import settings


def set_cache(directory: str | Path | None = None, *, enabled: bool | None = None) -> None:
    """Choose where compiled kernels are kept on disk, or whether they are. What is left out stays as it is.

    It sets `TILE_CACHE_DIR` and `TILE_CACHE` for this process and those that it starts.
    """
    if directory is not None:
        os.environ[type(settings).cache_dir.variable] = str(Path(directory).expanduser().absolute())
    if enabled is not None:
        os.environ[type(settings).cache.variable] = "1" if enabled else "0"


def enable_cache() -> None:
    """Keep compiled kernels on disk."""
    set_cache(enabled=True)


def disable_cache() -> None:
    """Neither read nor write compiled kernels on disk."""
    set_cache(enabled=False)


def is_cache_enabled() -> bool:
    """Whether compiled kernels are kept on disk."""
    return settings.cache


def clear_cache() -> None:
    """Remove every compiled kernel from the cache directory."""
    from tile_core.jit.cache import DiskCache

    DiskCache(settings.cache_dir).clear()
