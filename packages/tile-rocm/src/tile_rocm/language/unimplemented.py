"""Names of the ROCm dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    ds_read_tr16_b64 ds_read_tr8_b64 make_mfma_swizzle_layout MatrixCoreIntrinEmitter
    MatrixCorePreshuffleIntrinEmitter mfma_store rdna_wmma_store tvm_mfma_store tvm_rdna_wmma_store WMMAIntrinEmitter
    """.split()
)
