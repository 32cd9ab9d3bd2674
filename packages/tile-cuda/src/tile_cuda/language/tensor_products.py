"""Products of tiles by instructions of Blackwell: C in tensor memory (sm_100), or factors of blocks (sm_100, sm_120).

    T.tcgen05_gemm(A_shared, B_shared, total, mbar=done)
    ...
    T.mbarrier_wait_parity(done, 0)
    T.copy(total, fragment)

`T.gemm` into such a tile waits for the product itself; into a fragment it chooses what there is. Everything here is
printed, compiled for sm_100a and emulated, and has not run on hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend import arith
from tile_core.frontend.values import unwrap
from tile_core.language._operands import buffer_of, emit, is_positive_int, region
from tile_core.language._scalars import common
from tile_core.language.gemm import GemmWarpPolicy, emit_gemm
from tile_core.ops.products import IN_FLIGHT
from tile_cuda.language.asynchronous import Barrier, _barrier
from tile_cuda.matrix.tcgen05 import in_tensor_memory

__all__ = [
    "gemm",
    "gemm_blockscaled",
    "mma_gemm_blockscaled",
    "tcgen05_gemm",
    "tcgen05_gemm_blockscaled",
    "tcgen05_mma",
    "tcgen05_mma_blockscaled",
]

_STEP = 32
"""Elements of K of one block-scaled instruction."""


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    mbar: Barrier | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """C += A @ B on tiles; C = A @ B where `clear_accum`. It is the portable `T.gemm`, with two arguments of its own.

    Args:
        C: a fragment, or a tile of `T.alloc_tmem`; A may then be another one.
        mbar: a barrier that gets one arrival when the product is done, of a C in tensor memory. `T.gemm` waits anyway.

    Raises:
        OpArgumentError: `mbar` without tensor memory, or no barrier. GemmShapeError, GemmSymbolicError,
        GemmDTypeError: as the portable `T.gemm`. MissingLoweringError: when compiled, into tensor memory where no
        instruction covers it.

    Example:
        T.gemm(A_shared, B_shared, total, clear_accum=True)
    """
    emit_gemm("gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations)
    if mbar is not None:
        _require_tensor_memory("gemm: mbar", C)
        _signal(mbar, "gemm")


def tcgen05_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    mbar: Barrier | None,
    use_2cta: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """`T.gemm` into tensor memory without waiting: one of the threads that come by issues it.

    Until the barrier's phase is over C may not be touched, and A and B not be written. Products are made in the order
    of their issue.

    Args:
        C: a tile of `T.alloc_tmem`.
        mbar: gets one arrival when this product, and those issued before it, are done; `None` for none.
        use_2cta: of products of two blocks, which are not implemented.

    Raises:
        OpArgumentError: another C, no barrier, or `use_2cta`. As `T.gemm` else.
    """
    _require_tensor_memory("tcgen05_gemm: C", C)
    if use_2cta:
        raise OpArgumentError(
            "tcgen05_gemm: use_2cta is not implemented", remedy="leave it out: each block multiplies its own tile"
        )
    marks = {IN_FLIGHT: 1}
    emit_gemm("tcgen05_gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations, **marks)
    if mbar is not None:
        _signal(mbar, "tcgen05_gemm")


tcgen05_mma = tcgen05_gemm
"""As `T.tcgen05_gemm`."""


def tcgen05_gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA_tmem: Any,
    SFB_tmem: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    clear_accum: Any = False,
    wg_wait: int = 0,
    mbar: Barrier | None = None,
    *,
    k_start: Any,
    sf_a_granularity_k: int,
    sf_b_granularity_k: int,
    use_2cta: bool = False,
) -> None:
    """C += (A · SFA) @ (B · SFB) in tensor memory without waiting, as `T.tcgen05_gemm`; a factor scales a run of K.

    Args:
        A, B: floats of 8 bits in shared memory, as for `T.gemm`.
        C: a tile of `T.alloc_tmem`, float32.
        SFA_tmem, SFB_tmem: tiles of `T.alloc_tmem` of uint32, as `T.tcgen05_cp_warpx4` fills them: four factors of
            float8_e8m0fnu a word; row r of A, or column r of B, at lane r % 32, column r // 32, in all four quarters.
        wg_wait: 0; nothing waits.
        mbar: as for `T.tcgen05_gemm`.
        k_start: where along K the tiles begin; the byte of a word is `(k_start + k) // granularity % 4`.
        sf_a_granularity_k, sf_b_granularity_k: elements of K that share a factor; K is at most four times as many.
        use_2cta: of products of two blocks, which are not implemented.

    Raises:
        GemmShapeError, GemmDTypeError: operands that do not go together. OpArgumentError: no tensor memory, no barrier,
        a granularity that is no multiple of 32, or `use_2cta`. MissingLoweringError: when compiled, where no
        instruction covers it.
    """
    what = "tcgen05_gemm_blockscaled"
    _require_tensor_memory(f"{what}: C", C)
    granularities = (sf_a_granularity_k, sf_b_granularity_k)
    if use_2cta or wg_wait or any(not is_positive_int(each) or each % _STEP for each in granularities):
        raise OpArgumentError(
            f"{what}: {use_2cta=}, {wg_wait=}, granularities {granularities}",
            remedy=f"leave the first two out, and give multiples of {_STEP} elements for a factor",
        )
    operands = {"a": A, "b": B, "c": C, "fa": SFA_tmem, "fb": SFB_tmem}
    marks = {"transpose_a": int(bool(transpose_A)), "transpose_b": int(bool(transpose_B)), IN_FLIGHT: 1}
    _emit_scaled(what, operands, clear_accum, k_start, granularities, **marks)
    if mbar is not None:
        _signal(mbar, what)


tcgen05_mma_blockscaled = tcgen05_gemm_blockscaled
"""As `T.tcgen05_gemm_blockscaled`."""


def mma_gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    k_start: Any,
    sf_a_granularity_k: int,
    sf_b_granularity_k: int,
    sf_layout: str | None = None,
) -> None:
    """C += (A · SFA) @ (B · SFB) by block-scaled instructions of warps (sm_120); a factor scales a run of K.

    Args:
        A, B: floats of 8 bits, as for `T.gemm`. Those of 4 bits are not implemented here.
        C: a float32 fragment.
        SFA, SFB: shared tiles of uint32, a row for each row of A and each column of B: four factors of float8_e8m0fnu a
            word, one word behind another along K.
        k_start: where along K the tiles begin: element k has factor `(k_start + k) // granularity`.
        sf_a_granularity_k, sf_b_granularity_k: elements of K that share a factor, multiples of 32.
        sf_layout: `"rowmajor"`, or left out.
        transpose_A, transpose_B, policy, clear_accum: as for `T.gemm`.

    Raises:
        GemmShapeError, GemmDTypeError: operands that do not go together.
        OpArgumentError: another granularity or layout.
        MissingLoweringError: when compiled, where no such instruction computes it.
    """
    what = "mma_gemm_blockscaled"
    granularities = (sf_a_granularity_k, sf_b_granularity_k)
    if sf_layout not in (None, "rowmajor") or any(not is_positive_int(each) or each % _STEP for each in granularities):
        raise OpArgumentError(
            f"{what}: {sf_layout=}, granularities {granularities}",
            remedy=f'give "rowmajor", and multiples of {_STEP} elements for a factor',
        )
    marks = {"transpose_a": int(bool(transpose_A)), "transpose_b": int(bool(transpose_B)), "by_rows": 1}
    operands = {"a": A, "b": B, "c": C, "fa": SFA, "fb": SFB}
    _emit_scaled(what, operands, clear_accum, k_start, granularities, **marks, policy=int(GemmWarpPolicy(policy)))


def gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    k_start: Any,
    sf_a_granularity_k: int,
    sf_b_granularity_k: int,
    mbar: Barrier | None = None,
    use_2cta: bool = False,
    sf_layout: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """C += (A · SFA) @ (B · SFB) where C is a fragment: `T.mma_gemm_blockscaled`, whose arguments these are.

    Raises:
        OpArgumentError: C in tensor memory, whose products `T.tcgen05_gemm_blockscaled` issues; `mbar` or `use_2cta`,
            which are of those.
    """
    del annotations
    if in_tensor_memory(buffer_of(C, "gemm_blockscaled").ir) or mbar is not None or use_2cta:
        raise OpArgumentError(
            "gemm_blockscaled: a product in tensor memory is waited for by its author",
            remedy="use T.tcgen05_gemm_blockscaled(..., mbar=barrier) and T.mbarrier_wait_parity",
        )
    mma_gemm_blockscaled(
        A,
        B,
        C,
        SFA,
        SFB,
        transpose_A,
        transpose_B,
        policy,
        clear_accum,
        k_start=k_start,
        sf_a_granularity_k=sf_a_granularity_k,
        sf_b_granularity_k=sf_b_granularity_k,
        sf_layout=sf_layout,
    )


def _emit_scaled(
    what: str,
    operands: Mapping[str, Any],
    clear_accum: Any,
    k_start: Any,
    granularities: tuple[int, int],
    **marks: int,
) -> None:
    (start,) = common(k_start)
    regions_of = {name: region(operand, f"{what}: {name}") for name, operand in operands.items()}
    values = {"clear_accum": arith.truth(unwrap(clear_accum)), "k_start": start}
    marks |= {"granularity_a": granularities[0], "granularity_b": granularities[1]}
    emit("tile.gemm_scaled", {**regions_of, **values}, **marks)


def _require_tensor_memory(what: str, operand: Any) -> None:
    buffer = buffer_of(operand, what)
    if not in_tensor_memory(buffer.ir):
        raise OpArgumentError(
            f"{what}: {buffer.name} is {buffer.scope} memory", remedy="give a tile of T.alloc_tmem, or leave it out"
        )


def _signal(mbar: Barrier, what: str) -> None:
    emit("tile.barrier_arrive_products", {"barrier": _barrier(mbar, what)})
