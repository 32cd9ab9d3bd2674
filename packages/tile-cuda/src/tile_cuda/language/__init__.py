"""The CUDA dialect: the portable language, whose `Kernel` takes `threads`, `prelude` and `cluster_dims` here.

Names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from tile_core.language import dialect
from tile_cuda.language.unimplemented import UNIMPLEMENTED

OWN = {
    "tile_cuda.language.asynchronous": (
        "WarpSpecialize",
        "WarpSpecializeFrame",
        "alloc_cluster_barrier",
        "annotate_consumer_reg_alloc",
        "annotate_producer_reg_dealloc",
        "barrier_arrive",
        "barrier_wait",
        "cp_async_barrier_noinc",
        "dec_max_nreg",
        "disable_warp_group_reg_alloc",
        "fence_proxy_async",
        "inc_max_nreg",
        "mbarrier_arrive",
        "mbarrier_arrive_expect_tx",
        "mbarrier_expect_tx",
        "mbarrier_wait_parity",
        "no_set_max_nreg",
        "ptx_arrive_cluster_barrier",
        "set_max_nreg",
        "tma_copy",
        "tma_store_arrive",
        "tma_store_wait",
        "ws",
    ),
    "tile_cuda.language.annotate": ("annotate_l2_hit_ratio", "annotate_min_blocks_per_sm"),
    "tile_cuda.language.cluster": (
        "block_rank_in_cluster",
        "cluster_arrive",
        "cluster_arrive_relaxed",
        "cluster_sync",
        "cluster_wait",
        "pdl_sync",
        "pdl_trigger",
    ),
    "tile_core.language.source": ("import_source",),
    "tile_cuda.language.kernel": ("CUDASourceCodeKernel", "ClusterKernel", "Kernel"),
    "tile_cuda.language.math": (
        "__cos",
        "__exp",
        "__exp10",
        "__ffs",
        "__fns",
        "__ldg",
        "__log",
        "__log10",
        "__log2",
        "__sin",
        "__tan",
        "fast_rcp",
        "fmul",
        "ieee_add",
        "ieee_fdiv",
        "ieee_fmaf",
        "ieee_frcp",
        "ieee_frsqrt",
        "ieee_fsqrt",
        "ieee_mul",
        "ieee_sub",
    ),
    "tile_cuda.language.words": (
        "ldg128",
        "ldg256",
        "ldg32",
        "ldg64",
        "lds128",
        "lds32",
        "lds64",
        "stg128",
        "stg256",
        "stg32",
        "stg64",
        "sts128",
        "sts32",
        "sts64",
    ),
    "tile_cuda.language.products": (
        "wait_wgmma",
        "warpgroup_arrive",
        "warpgroup_commit_batch",
        "warpgroup_fence_operand",
        "warpgroup_wait",
        "wgmma_gemm",
        "wgmma_mma",
    ),
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
