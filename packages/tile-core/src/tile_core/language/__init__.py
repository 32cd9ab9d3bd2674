"""The portable tile language: `import tile_core.language as T`.

Names are resolved on first use (PEP 562), so importing this module imports neither TVM nor numpy. `_names.py` is the
one list of names and of the modules that define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.dtypes import DType, set_cast_hook
from tile_core.language._dialect import Dialect as Dialect
from tile_core.language._dialect import dialect as dialect

if TYPE_CHECKING:
    # Every name, for type checkers and editors; `tests/language/test_typing.py` holds that none is missing.
    from tile_core.dtypes import get_tvm_dtype as get_tvm_dtype
    from tile_core.dtypes import is_f8f6f4_family as is_f8f6f4_family
    from tile_core.dtypes import is_float4 as is_float4
    from tile_core.dtypes import is_float4_e2m1_unpacked as is_float4_e2m1_unpacked
    from tile_core.dtypes import is_float4_e2m1fn as is_float4_e2m1fn
    from tile_core.dtypes import validate_gemm_ab_dtypes as validate_gemm_ab_dtypes
    from tile_core.dtypes._declared import *  # noqa: F403
    from tile_core.frontend.annotations import *  # noqa: F403
    from tile_core.frontend.macro import *  # noqa: F403
    from tile_core.frontend.pointers import *  # noqa: F403
    from tile_core.frontend.prim_func import *  # noqa: F403
    from tile_core.frontend.symbols import *  # noqa: F403
    from tile_core.language.allocate import *  # noqa: F403
    from tile_core.language.annotate import *  # noqa: F403
    from tile_core.language.atomic import *  # noqa: F403
    from tile_core.language.bits import *  # noqa: F403
    from tile_core.language.cast import *  # noqa: F403
    from tile_core.language.constants import *  # noqa: F403
    from tile_core.language.control import *  # noqa: F403
    from tile_core.language.copy import *  # noqa: F403
    from tile_core.language.debug import *  # noqa: F403
    from tile_core.language.fill import *  # noqa: F403
    from tile_core.language.flow import *  # noqa: F403
    from tile_core.language.gemm import *  # noqa: F403
    from tile_core.language.integer import *  # noqa: F403
    from tile_core.language.kernel import *  # noqa: F403
    from tile_core.language.launch_queries import *  # noqa: F403
    from tile_core.language.loops import *  # noqa: F403
    from tile_core.language.math import *  # noqa: F403
    from tile_core.language.meta import *  # noqa: F403
    from tile_core.language.options import *  # noqa: F403
    from tile_core.language.pointers import *  # noqa: F403
    from tile_core.language.random import *  # noqa: F403
    from tile_core.language.raw import *  # noqa: F403
    from tile_core.language.reduce import *  # noqa: F403
    from tile_core.language.reducer import *  # noqa: F403
    from tile_core.language.refused import *  # noqa: F403
    from tile_core.language.scan import *  # noqa: F403
    from tile_core.language.schedule import *  # noqa: F403
    from tile_core.language.select import *  # noqa: F403
    from tile_core.language.threads import *  # noqa: F403
    from tile_core.language.types import *  # noqa: F403
    from tile_core.language.vector import *  # noqa: F403
    from tile_core.language.views import *  # noqa: F403

PORTABLE: Dialect = dialect("portable", __name__)

if not TYPE_CHECKING:
    __all__ = [*PORTABLE.exports, "dialect"]  # noqa: PLE0604


def exports() -> frozenset[str]:
    """The names of the portable language."""
    return frozenset(PORTABLE.exports)


def _make_value(dtype: DType, *values: Any) -> Any:
    from tile_core.frontend.values import make_value

    return make_value(dtype, *values)


set_cast_hook(_make_value)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return PORTABLE.lookup(name)


def __dir__() -> list[str]:
    return sorted([*PORTABLE.exports, "dialect"])
