"""The ROCm dialect: the portable language, whose `Kernel` takes `threads` and `prelude` here.

Names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.language import dialect
from tile_rocm.language.unimplemented import UNIMPLEMENTED

if TYPE_CHECKING:
    from tile_core.language import *  # noqa: F403
    from tile_core.language.source import *  # noqa: F403
    from tile_rocm.language.hints import *  # type: ignore[assignment]  # noqa: F403
    from tile_rocm.language.kernel import *  # noqa: F403
    from tile_rocm.language.matrix import *  # noqa: F403

OWN = {
    "tile_core.language.source": ("import_source",),
    "tile_rocm.language.hints": ("gemm",),
    "tile_rocm.language.kernel": ("Kernel",),
    "tile_rocm.language.matrix": (
        "get_mma_micro_size",
        "mfma",
        "mfma_store_index_map",
        "mfma_store_index_map_32x32",
        "rdna_wmma",
        "tvm_mfma",
        "tvm_rdna_wmma",
    ),
}
DIALECT = dialect("ROCm", __name__, OWN, unimplemented=UNIMPLEMENTED)

__all__ = list(DIALECT.exports)
__getattr__ = DIALECT.lookup


def __dir__() -> list[str]:
    return list(DIALECT.exports)
