"""Names of the Ascend dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    alloc_l0a alloc_l0a_sf alloc_l0b alloc_l0b_sf alloc_l0c alloc_l1 annotate_buffer_versions
    annotate_manual_multi_buffer annotate_unlimit_memory ascend_cross_core_set_flag ascend_cross_core_wait_flag
    ascend_get_buf ascend_nd2nz_post_copy ascend_pipe_barrier ascend_rls_buf ascend_set_copy_pad_value
    ascend_set_flag ascend_sync_inter_arrive ascend_sync_inter_wait ascend_threadfence ascend_wait_flag
    AscendBaseTileScheduler AscendBatchedTileScheduler AscendKGroupedTileScheduler AscendMGroupedTileScheduler
    AscendTileScheduler assume_conflict assume_no_conflict Cube CubeFrame device_assert dual_copy MixedKernel
    PerCoreTask print rng_init rng_rand rng_rand_float set_atomic set_atomic_none set_hf32_mode set_mmad_direction
    simd SimdVF SimdVFFrame Stage Task Vector VectorFrame
    """.split()
)
