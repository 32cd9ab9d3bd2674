"""The CPU's dialect of the tile language: the portable names, with a `Kernel` that knows no threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.language import dialect

if TYPE_CHECKING:
    from tile_core.language import *  # noqa: F403
    from tile_cpu.language.kernel import *  # noqa: F403

DIALECT = dialect("CPU", __name__, {"tile_cpu.language.kernel": ("Kernel",)})

__all__ = list(DIALECT.exports)


def __getattr__(name: str) -> Any:
    return DIALECT.lookup(name)


def __dir__() -> list[str]:
    return list(__all__)
