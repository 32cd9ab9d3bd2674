"""The CUDA dialect: the portable language, whose `Kernel` takes `threads`, `prelude` and `cluster_dims` here.

Names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from tile_core.language import dialect
from tile_cuda.language.unimplemented import UNIMPLEMENTED

OWN = {
    "tile_cuda.language.kernel": ("Kernel",),
    "tile_cuda.language.threads": (
        "get_lane_idx",
        "get_warp_group_idx",
        "get_warp_idx",
        "get_warp_idx_sync",
        "match_all_sync",
        "match_any_sync",
        "named_barrier_arrive",
        "shuffle_elect",
    ),
}
DIALECT = dialect("CUDA", __name__, OWN, unimplemented=UNIMPLEMENTED)

__all__ = list(DIALECT.exports)
__getattr__ = DIALECT.lookup


def __dir__() -> list[str]:
    return list(DIALECT.exports)
