"""`tilelang.transform`: pass configs, and simplification by hand, which changes nothing here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from tile_core.compat.tilelang.table import table

__all__ = ["PassConfigKey", "apply_simplify", "simplify_prim_func"]

if TYPE_CHECKING:

    class PassConfigKey(StrEnum):
        """The keys of pass configs; see `names.yaml`."""

else:
    PassConfigKey = StrEnum("PassConfigKey", {name: config.key for name, config in table().pass_configs.items()})

T = TypeVar("T")


def simplify_prim_func(func: T) -> T:
    """The function itself: compiling simplifies every program."""
    return func


def apply_simplify(stmt: T) -> T:
    """The program itself: compiling simplifies every program."""
    return stmt
