"""The Metal dialect: the portable language, whose `Kernel` takes `threads` and `prelude` here.

Names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.language import dialect
from tile_metal.language.unimplemented import UNIMPLEMENTED

if TYPE_CHECKING:
    from tile_core.language import *  # noqa: F403
    from tile_metal.language.kernel import *  # noqa: F403

DIALECT = dialect("Metal", __name__, {"tile_metal.language.kernel": ("Kernel",)}, unimplemented=UNIMPLEMENTED)

__all__ = list(DIALECT.exports)
__getattr__ = DIALECT.lookup


def __dir__() -> list[str]:
    return list(DIALECT.exports)
