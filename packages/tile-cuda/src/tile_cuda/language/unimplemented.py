"""Names of the CUDA dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    alloc_descriptor alloc_tcgen05_instr_desc alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc alloc_tmem
    alloc_wgmma_desc clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z clc_is_canceled
    clc_try_cancel clc_try_cancel_multicast compute_gmma_descriptor compute_umma_descriptor copy_cluster
    create_tma_descriptor deallocate_tmem get_ldmatrix_offset get_mma_micro_size get_swizzle_layout
    increase_descriptor_offset initialize_tcgen05_descriptor initialize_wgmma_descriptor
    make_blockscaled_gemm_layout make_mma_swizzle_layout mma_fill mma_gemm_blockscaled mma_store
    mma_store_index_map ptx_cp_async_bulk ptx_fence_barrier_init ptx_ldmatrix ptx_mma ptx_mma_block_scale
    ptx_mma_sm70 ptx_mma_sp ptx_tcgen05_mma_blockscaled_ss ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts ptx_wait_barrier
    ptx_wgmma_rs ptx_wgmma_sp_rs ptx_wgmma_sp_ss ptx_wgmma_ss SparseTensorCoreIntrinEmitter
    tcgen05_after_thread_sync tcgen05_before_thread_sync tcgen05_cp_warpx4 tcgen05_gemm tcgen05_gemm_blockscaled
    tcgen05_gemm_sp tcgen05_mma tcgen05_mma_arrive tcgen05_mma_blockscaled tcgen05_sf_warp_transpose
    TCGEN05DescriptorParams TCGEN05TensorCoreIntrinEmitter TensorCoreIntrinEmitter TensorCoreIntrinEmitterSM120
    TensorCoreIntrinEmitterWithLadderTransform tma_gather4 tma_gather4_bytes tma_load tma_load_2sm tma_scatter4
    wgmma_gemm_sp WGMMADescriptorParams WGMMATensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter
    """.split()
)
