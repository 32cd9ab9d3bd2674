"""The portable tile language: `import tile_core.language as T`.

Names are resolved on first use (PEP 562), so importing this module imports neither TVM nor numpy. `_names.py` is the
one list of names and of the modules that define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.dtypes import DType, set_cast_hook
from tile_core.language._dialect import Dialect, dialect

if TYPE_CHECKING:
    from tile_core.frontend.annotations import *  # noqa: F403
    from tile_core.frontend.macro import *  # noqa: F403
    from tile_core.frontend.pointers import *  # noqa: F403
    from tile_core.frontend.prim_func import *  # noqa: F403
    from tile_core.frontend.symbols import *  # noqa: F403
    from tile_core.language.allocate import *  # noqa: F403
    from tile_core.language.control import *  # noqa: F403
    from tile_core.language.copy import *  # noqa: F403
    from tile_core.language.fill import *  # noqa: F403
    from tile_core.language.gemm import *  # noqa: F403
    from tile_core.language.kernel import *  # noqa: F403
    from tile_core.language.loops import *  # noqa: F403
    from tile_core.language.math import *  # noqa: F403
    from tile_core.language.reduce import *  # noqa: F403

PORTABLE: Dialect = dialect("portable", __name__)

__all__ = [*PORTABLE.exports, "dialect"]  # noqa: PLE0604


def exports() -> frozenset[str]:
    """The names of the portable language."""
    return frozenset(PORTABLE.exports)


def _make_value(dtype: DType, *values: Any) -> Any:
    from tile_core.frontend.values import make_value

    return make_value(dtype, *values)


set_cast_hook(_make_value)


def __getattr__(name: str) -> Any:
    return PORTABLE.lookup(name)


def __dir__() -> list[str]:
    return sorted([*PORTABLE.exports, "dialect"])
