"""The CUDA dialect: the portable language, whose `Kernel` takes `threads`, `prelude` and `cluster_dims` here.

Names that are refused by design say why; names of the vendor's hardware that do not exist yet are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tile_core.language import dialect
from tile_cuda.language.unimplemented import UNIMPLEMENTED

if TYPE_CHECKING:
    from tile_core.language import *  # noqa: F403
    from tile_core.language.source import *  # noqa: F403
    from tile_cuda.language.annotate import *  # noqa: F403
    from tile_cuda.language.asynchronous import *  # noqa: F403
    from tile_cuda.language.block_scaled import *  # noqa: F403
    from tile_cuda.language.cluster import *  # noqa: F403
    from tile_cuda.language.cluster_control import *  # noqa: F403
    from tile_cuda.language.cluster_copies import *  # noqa: F403
    from tile_cuda.language.hints import *  # type: ignore[assignment]  # noqa: F403
    from tile_cuda.language.kernel import *  # noqa: F403
    from tile_cuda.language.layouts import *  # noqa: F403
    from tile_cuda.language.math import *  # noqa: F403
    from tile_cuda.language.matrix import *  # noqa: F403
    from tile_cuda.language.products import *  # noqa: F403
    from tile_cuda.language.refused import *  # noqa: F403
    from tile_cuda.language.sparse import *  # type: ignore[assignment]  # noqa: F403
    from tile_cuda.language.tcgen05 import *  # noqa: F403
    from tile_cuda.language.tensor_maps import *  # noqa: F403
    from tile_cuda.language.tensor_products import *  # type: ignore[assignment]  # noqa: F403
    from tile_cuda.language.threads import *  # noqa: F403
    from tile_cuda.language.wgmma import *  # noqa: F403
    from tile_cuda.language.words import *  # noqa: F403

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
        "ptx_fence_barrier_init",
        "set_max_nreg",
        "tma_copy",
        "tma_store_arrive",
        "tma_store_wait",
        "ws",
    ),
    "tile_cuda.language.annotate": ("annotate_l2_hit_ratio", "annotate_min_blocks_per_sm"),
    "tile_cuda.language.block_scaled": (
        "ptx_tcgen05_mma_blockscaled_ss",
        "tcgen05_cp_warpx4",
        "tcgen05_sf_warp_transpose",
    ),
    "tile_cuda.language.cluster": (
        "block_rank_in_cluster",
        "cluster_arrive",
        "cluster_arrive_relaxed",
        "cluster_sync",
        "cluster_wait",
        "pdl_sync",
        "pdl_trigger",
    ),
    "tile_cuda.language.cluster_control": (
        "clc_get_first_ctaid_x",
        "clc_get_first_ctaid_y",
        "clc_get_first_ctaid_z",
        "clc_is_canceled",
        "clc_try_cancel",
        "clc_try_cancel_multicast",
    ),
    "tile_cuda.language.cluster_copies": ("copy_cluster",),
    "tile_core.language.source": ("import_source",),
    "tile_cuda.language.hints": (
        "Parallel",
        "atomic_add",
        "copy",
        "im2col",
        "reduce_absmax",
        "reduce_max",
        "reduce_min",
    ),
    "tile_cuda.language.kernel": ("CUDASourceCodeKernel", "ClusterKernel", "Kernel"),
    "tile_cuda.language.layouts": ("get_swizzle_layout", "make_mma_swizzle_layout"),
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
    "tile_cuda.language.sparse": ("gemm_sp",),
    "tile_cuda.language.wgmma": (
        "alloc_descriptor",
        "alloc_wgmma_desc",
        "increase_descriptor_offset",
        "initialize_wgmma_descriptor",
        "ptx_wgmma_rs",
        "ptx_wgmma_sp_rs",
        "ptx_wgmma_sp_ss",
        "ptx_wgmma_ss",
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
    "tile_cuda.language.matrix": (
        "get_ldmatrix_offset",
        "get_mma_micro_size",
        "mma_fill",
        "mma_store",
        "mma_store_index_map",
        "ptx_ldmatrix",
        "ptx_mma",
        "ptx_mma_block_scale",
        "ptx_mma_sp",
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
    "tile_cuda.language.refused": (
        "SparseTensorCoreIntrinEmitter",
        "TCGEN05DescriptorParams",
        "TCGEN05TensorCoreIntrinEmitter",
        "TensorCoreIntrinEmitter",
        "TensorCoreIntrinEmitterSM120",
        "TensorCoreIntrinEmitterWithLadderTransform",
        "WGMMADescriptorParams",
        "WGMMATensorCoreIntrinEmitter",
        "WGSparseTensorCoreIntrinEmitter",
        "compute_gmma_descriptor",
        "compute_umma_descriptor",
        "make_blockscaled_gemm_layout",
        "ptx_cp_async_bulk",
        "ptx_mma_sm70",
        "ptx_wait_barrier",
        "tcgen05_gemm_sp",
        "wgmma_gemm_sp",
    ),
    "tile_cuda.language.tcgen05": (
        "alloc_tcgen05_instr_desc",
        "alloc_tcgen05_instruction_desc",
        "alloc_tcgen05_smem_desc",
        "alloc_tmem",
        "deallocate_tmem",
        "initialize_tcgen05_descriptor",
        "ptx_tcgen05_mma_ss",
        "ptx_tcgen05_mma_ts",
        "tcgen05_after_thread_sync",
        "tcgen05_before_thread_sync",
        "tcgen05_mma_arrive",
    ),
    "tile_cuda.language.tensor_products": (
        "gemm",
        "gemm_blockscaled",
        "mma_gemm_blockscaled",
        "tcgen05_gemm",
        "tcgen05_gemm_blockscaled",
        "tcgen05_mma",
        "tcgen05_mma_blockscaled",
    ),
    "tile_cuda.language.tensor_maps": (
        "create_tma_descriptor",
        "tma_gather4",
        "tma_gather4_bytes",
        "tma_load",
        "tma_load_2sm",
        "tma_scatter4",
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
