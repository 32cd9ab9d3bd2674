"""Names of the CUDA dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    alloc_tcgen05_instr_desc alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc alloc_tmem
    clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z clc_is_canceled clc_try_cancel
    clc_try_cancel_multicast deallocate_tmem initialize_tcgen05_descriptor mma_gemm_blockscaled
    ptx_mma_block_scale ptx_tcgen05_mma_blockscaled_ss ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts
    tcgen05_after_thread_sync tcgen05_before_thread_sync tcgen05_cp_warpx4 tcgen05_gemm tcgen05_gemm_blockscaled
    tcgen05_mma tcgen05_mma_arrive tcgen05_mma_blockscaled tcgen05_sf_warp_transpose tma_gather4 tma_gather4_bytes
    tma_load_2sm tma_scatter4
    """.split()
)
