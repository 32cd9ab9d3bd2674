"""Names of TileLang's CUDA dialect that are refused by design, each with its reason and what to write instead."""

from __future__ import annotations

from typing import Any

from tile_core.language.refused import refusal

_GENERATOR = (
    "it belongs to TileLang's own code generator, which emits the instructions of a product in Python",
    "use T.gemm or T.wgmma_gemm, or the instructions themselves: T.ptx_ldmatrix, T.ptx_mma, T.ptx_wgmma_ss",
)
_BARRIER_NUMBERS = (
    "it names a barrier by its number in an array that the compiler makes",
    "use T.alloc_barrier with T.mbarrier_wait_parity and T.tma_copy",
)
_METADATA = (
    "the order of its metadata is that of one instruction, and no copy prepares it",
    "use T.ptx_mma_sp or T.ptx_wgmma_sp_ss, or expand A to a dense tile for T.gemm",
)

REASONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
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
        ),
        _GENERATOR,
    ),
    **dict.fromkeys(("ptx_cp_async_bulk", "ptx_wait_barrier"), _BARRIER_NUMBERS),
    **dict.fromkeys(("tcgen05_gemm_sp", "wgmma_gemm_sp"), _METADATA),
    "make_blockscaled_gemm_layout": (
        "how threads hold an accumulator follows from the products that write it",
        "leave the annotation out",
    ),
    "ptx_mma_sm70": ("it is an instruction of sm_70, and architectures begin at sm_75", "use T.gemm or T.ptx_mma"),
}
"""Name to reason and remedy."""

__all__ = list(REASONS)


def __getattr__(name: str) -> Any:
    if name in REASONS:
        return refusal(name, *REASONS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
