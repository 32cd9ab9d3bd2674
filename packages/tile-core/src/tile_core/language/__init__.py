"""The portable tile language: `import tile_core.language as T`.

Names are resolved on first use (PEP 562), so importing this module imports neither TVM nor numpy. `_MODULES` is the one list of where
names come from; a name's home is found from the modules' `__all__`, which is read without importing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.language._dialect import Dialect, dialect

if TYPE_CHECKING:
    from tile_core.frontend.annotations import StridedTensor, Tensor, ptr
    from tile_core.frontend.macro import Ref, macro
    from tile_core.frontend.prim_func import prim_func
    from tile_core.frontend.symbols import const, dynamic, symbolic
    from tile_core.language.allocate import *  # noqa: F403
    from tile_core.language.control import empty, loop_break
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


def __getattr__(name: str) -> Any:
    return PORTABLE.lookup(name)


def __dir__() -> list[str]:
    return sorted([*PORTABLE.exports, "dialect"])
