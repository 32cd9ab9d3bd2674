"""Names of the CUDA dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    mma_gemm_blockscaled ptx_mma_block_scale ptx_tcgen05_mma_blockscaled_ss
    tcgen05_cp_warpx4 tcgen05_gemm_blockscaled tcgen05_mma_blockscaled
    tcgen05_sf_warp_transpose
    """.split()
)
