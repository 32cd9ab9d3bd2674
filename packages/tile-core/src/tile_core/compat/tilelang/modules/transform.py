"""`tilelang.transform`: pass configs, and simplification by hand, which changes nothing here."""

from __future__ import annotations

from enum import EnumType, StrEnum
from typing import TypeVar

from tile_core.compat.tilelang.table import table
from tile_core.errors.compat import PassConfigKeyError

__all__ = ["PassConfigKey", "apply_simplify", "simplify_prim_func"]


class _Keys(EnumType):
    """An enumeration that names what it does not have."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        raise PassConfigKeyError(
            f"TileLang {table().version} has no pass config {name}", remedy="leave it out; nothing here depends on it"
        )


class _Key(StrEnum, metaclass=_Keys):
    """The base of the enumeration."""


PassConfigKey = _Key(  # type: ignore[call-arg]  # the functional form, which a checker knows of Enum itself only
    "PassConfigKey", {name: config.key for name, config in table().pass_configs.items()}
)
"""The keys of pass configs; see `names.yaml`."""

T = TypeVar("T")


def simplify_prim_func(func: T) -> T:
    """The function itself: compiling simplifies every program."""
    return func


def apply_simplify(stmt: T) -> T:
    """The program itself: compiling simplifies every program."""
    return stmt
