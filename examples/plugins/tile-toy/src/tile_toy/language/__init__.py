"""The toy dialect: the portable language without additions."""

from __future__ import annotations

from typing import Any

from tile_core.language import dialect

DIALECT = dialect("toy", __name__)

__all__ = list(DIALECT.exports)


def __getattr__(name: str) -> Any:
    return DIALECT.lookup(name)


def __dir__() -> list[str]:
    return list(__all__)
