"""Names of the ROCm dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    ds_read_tr16_b64 ds_read_tr8_b64 get_mma_micro_size make_mfma_swizzle_layout MatrixCoreIntrinEmitter
    MatrixCorePreshuffleIntrinEmitter mfma mfma_store mfma_store_index_map mfma_store_index_map_32x32 rdna_wmma
    rdna_wmma_store tvm_mfma tvm_mfma_store tvm_rdna_wmma tvm_rdna_wmma_store WMMAIntrinEmitter
    """.split()
)
