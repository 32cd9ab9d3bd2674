"""Products of warpgroups that are not waited for where they are issued.

    T.wgmma_gemm(A_shared, B_shared, total)
    T.reduce_max(scores, largest)          # runs beside the product
    T.wait_wgmma(0)                        # `total` holds it from here on

Until a wait lets a product pass, C may not be touched, its shared tiles may not be written, nor A where it is a
fragment; emulated runs find a wait that is missing. Around a loop of `T.Pipelined` the compiler places the waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend.values import Element, unwrap
from tile_core.ir import regions
from tile_core.language._operands import buffer_of, emit, is_positive_int
from tile_core.language.gemm import GemmWarpPolicy, emit_gemm
from tile_core.ops.products import IN_FLIGHT

__all__ = [
    "wait_wgmma",
    "warpgroup_arrive",
    "warpgroup_commit_batch",
    "warpgroup_fence_operand",
    "warpgroup_wait",
    "wgmma_gemm",
    "wgmma_mma",
]

_REGISTER_BITS = 32


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """`T.gemm` by instructions of warpgroups (sm_90), without waiting: `T.wait_wgmma` does that.

    Products are made in the order of their issue, each a group of its own. Arguments as `T.gemm`.

    Raises:
        GemmShapeError, GemmSymbolicError, GemmDTypeError: as `T.gemm`.
        MissingLoweringError: when compiled, where no instruction of a warpgroup computes it.

    Example:
        T.wgmma_gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
        T.wait_wgmma(0)
    """
    marks = {IN_FLIGHT: 1}
    emit_gemm("wgmma_gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations, **marks)


wgmma_mma = wgmma_gemm
"""As `T.wgmma_gemm`."""


def wait_wgmma(id: int) -> None:
    """Wait until at most the last `id` groups of products that this warpgroup issued still run: 0 waits for all.

    Raises:
        OpArgumentError: no int from 0 to 7.
    """
    if not isinstance(id, int) or isinstance(id, bool):
        raise OpArgumentError(f"wait_wgmma: {id!r}", remedy="give an int from 0 to 7")
    emit("tile.product_wait", {}, groups=id)


def warpgroup_wait(num_mma: int) -> None:
    """As `T.wait_wgmma`."""
    wait_wgmma(num_mma)


def warpgroup_arrive() -> None:
    """What this warpgroup has written to registers is seen by products issued after it: `wgmma.fence`.

    Needed before `T.ptx_wgmma_ss` and its kin; `T.wgmma_gemm` does it by itself.
    """
    emit("tile.product_fence", {})


def warpgroup_commit_batch() -> None:
    """The products of this warpgroup since the last one are a group, for `T.warpgroup_wait`: `wgmma.commit_group`.

    Needed after `T.ptx_wgmma_ss` and its kin; a `T.wgmma_gemm` is a group by itself.
    """
    emit("tile.product_commit", {})


def warpgroup_fence_operand(
    buffer_or_ptr: Any, offset: Any = 0, num_regs: int | None = None, dtype: Any = None
) -> None:
    """Keep uses of an accumulator on their side of this point, for products issued by `T.ptx_wgmma_ss` and its kin.

    Args:
        buffer_or_ptr: a fragment, which is taken whole, or an array of `T.alloc_local` or an element of one.
        offset: elements of the array to skip.
        num_regs: 32-bit registers from there on; by default the rest of the array.
        dtype: that of the elements, which must be the array's.

    Raises:
        OpArgumentError: other memory, or registers beyond the array. OpDTypeError: another dtype.
    """
    buffer = buffer_of(buffer_or_ptr, "warpgroup_fence_operand")
    if dtype is not None and as_dtype(dtype) != buffer.dtype:
        raise OpDTypeError(
            f"warpgroup_fence_operand: {buffer.name} is {buffer.dtype}, not {as_dtype(dtype)}", remedy="leave dtype out"
        )
    if buffer.scope != regions.LOCAL:
        emit("tile.product_pin", {"registers": regions.whole(buffer.ir)})
        return
    (length,) = buffer.shape if buffer.ndim == 1 else (None,)
    if not isinstance(length, int) or not isinstance(offset, int):
        raise OpArgumentError(
            f"warpgroup_fence_operand: {buffer.name} of shape {buffer.shape} from {offset!r} on",
            remedy="give an array of one axis with a constant extent, and an int",
        )
    start = offset + _position(buffer_or_ptr)
    elements = length - start if num_regs is None else num_regs * _REGISTER_BITS // buffer.dtype.bits
    if start < 0 or not is_positive_int(elements) or start + elements > length:
        raise OpArgumentError(
            f"warpgroup_fence_operand: {elements} elements of {buffer.name} from {start} on, of {length}",
            remedy="stay within the array",
        )
    emit("tile.product_pin", {"registers": regions.region(buffer.ir, [unwrap(start)], [unwrap(elements)])})


def _position(operand: Any) -> int:
    """The index of an element, 0 of a buffer."""
    if not isinstance(operand, Element):
        return 0
    (index,) = operand.indices
    found = index if isinstance(index, int) else regions.constant(unwrap(index))
    if found is None:
        raise OpArgumentError("warpgroup_fence_operand: an index that is no constant", remedy="give a constant index")
    return found
