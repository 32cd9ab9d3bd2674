"""`tilelang.cache`."""

from __future__ import annotations

from typing import Any

from tile_core.compat.tilelang.modules.jit import compile as _compile
from tile_core.jit.control import clear_cache

__all__ = ["cached", "clear_cache"]


def cached(func: Any, *arguments: Any, **options: Any) -> Any:
    """`tilelang.compile`, which keeps kernels anyway."""
    return _compile(func, *arguments, **options)
