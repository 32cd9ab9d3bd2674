"""The Ascend dialect: the portable language, whose `Kernel` takes `prelude` and exactly one extent here, and `SimtVF`.

Names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_ascend.language.unimplemented import UNIMPLEMENTED
from tile_core.language import dialect

if TYPE_CHECKING:
    from tile_ascend.language.functions import *  # noqa: F403
    from tile_ascend.language.kernel import *  # noqa: F403
    from tile_core.language import *  # noqa: F403

OWN = {
    "tile_ascend.language.functions": ("SimtVF", "SimtVFFrame"),
    "tile_ascend.language.kernel": ("Kernel",),
}
DIALECT = dialect("Ascend", __name__, OWN, unimplemented=UNIMPLEMENTED)

__all__ = list(DIALECT.exports)
__getattr__ = DIALECT.lookup


def __dir__() -> list[str]:
    return list(DIALECT.exports)
