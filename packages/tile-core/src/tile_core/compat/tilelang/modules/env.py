"""`tilelang.env`: TileLang's variables, answered from our settings."""

from __future__ import annotations

import os
from typing import Any

from tile_core.compat.tilelang.finder import ROOT
from tile_core.compat.tilelang.table import table
from tile_core.errors.compat import CompatAttributeError
from tile_core.jit.control import disable_cache, enable_cache, is_cache_enabled
from tile_core.settings import settings

__all__ = ["Environment", "disable_cache", "enable_cache", "env", "is_cache_enabled"]


class Environment:
    """TileLang's variables as attributes. Those that are settings here have the setting's value as text."""

    def __getattr__(self, name: str) -> Any:
        variable = table().variables.get(name)
        if variable is None:
            raise CompatAttributeError(f"TileLang has no variable {name}", remedy=f"dir({ROOT}.env) lists them")
        for setting in settings.all():
            if setting.variable == variable.to and variable.value != "not":
                value = getattr(settings, setting.name)
                return "" if value is None else str(value)
        return os.environ.get(name, variable.ignore or "")

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *table().variables])

    def enable_cache(self) -> None:
        """Keep compiled kernels on disk."""
        enable_cache()

    def disable_cache(self) -> None:
        """Neither read nor write compiled kernels on disk."""
        disable_cache()

    def is_cache_enabled(self) -> bool:
        """Whether compiled kernels are kept on disk."""
        return is_cache_enabled()

    def is_autotune_cache_disabled(self) -> bool:
        """Whether the autotuner's choices are forgotten."""
        return not settings.autotune_cache

    def get_default_target(self) -> str:
        """What a kernel that names no target is compiled for."""
        return os.environ.get("TILELANG_DEFAULT_TARGET", settings.target)

    def get_default_verbose(self) -> bool:
        """Whether each compile is reported."""
        return settings.debug >= 1


env = Environment()
