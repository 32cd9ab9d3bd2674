"""Tensor memory and its products, written by hand (sm_100 and its family).

They are printed, compiled for sm_100a and emulated; none has run on hardware. Where one thread is to do something, the
warps that come by elect it. PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import AllocationError, OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Value, unwrap
from tile_core.ir import regions
from tile_core.ir.ops import tile_op
from tile_core.language._operands import whole_buffer
from tile_core.language.allocate import allocate
from tile_core.ops.asynchronous import BARRIER, CLUSTER_BARRIER
from tile_cuda.instructions.shapes import PTX_TYPES
from tile_cuda.instructions.tcgen05 import (
    COLUMNS,
    SWIZZLES,
    decoded,
    tcgen05_commit,
    tcgen05_descriptor,
    tcgen05_fence,
    tcgen05_mma,
    tcgen05_mma_ts,
)
from tile_cuda.instructions.threads import elect
from tile_cuda.language._instructions import dtype_name, issue, number, place, shared_address
from tile_cuda.language.wgmma import advanced, alloc_descriptor, distances_in_bytes, store_descriptor
from tile_cuda.matrix.tcgen05 import AT, TENSOR_MEMORY
from tile_cuda.passes.place_tensor_memory import FREE

__all__ = [
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
]

_SPANS = {code: span for span, code in SWIZZLES.items()}
_LANES, _WORD_BITS = 128, 32


def alloc_tmem(shape: Any, dtype: Any) -> Buffer:
    """A tile of tensor memory: rows are its 128 lanes, a row lies in columns of 32 bits.

    A power of two of columns, at least 32, is taken before the block begins, and given back at its end.

    Raises:
        AllocationError: no matrix of constant shape with at most 128 rows and 512 columns.
    """
    buffer = allocate(shape, dtype, TENSOR_MEMORY)
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    most = COLUMNS * _WORD_BITS // buffer.dtype.bits
    if len(extents) != 2 or buffer.ndim != 2 or not (0 < extents[0] <= _LANES and 0 < extents[1] <= most):
        raise AllocationError(
            f"alloc_tmem: shape {buffer.shape} of {buffer.dtype}",
            remedy=f"give at most {_LANES} rows and {most} columns, both constant",
        )
    return buffer


def deallocate_tmem(tmem: Buffer) -> None:
    """Give the columns of a tile back here, for the whole block, instead of at the end of the kernel.

    Raises:
        OpArgumentError: no tile of `T.alloc_tmem`.
    """
    buffer = whole_buffer(tmem, "deallocate_tmem")
    if buffer.scope != TENSOR_MEMORY:
        raise OpArgumentError(f"deallocate_tmem: {buffer.name} is {buffer.scope} memory", remedy="give T.alloc_tmem's")
    call = ir.Call(tile_op(FREE), [_first(buffer)], ret_ty="void")
    issue(call, "")


def _first(buffer: Buffer) -> ir.Expr:
    return tirx.BufferLoad(buffer.ir, [unwrap(0)] * buffer.ndim)


def alloc_tcgen05_smem_desc(dtype: Any = "uint64") -> Buffer:
    """A descriptor for `T.ptx_tcgen05_mma_ss`. Raises as `T.alloc_descriptor`."""
    return alloc_descriptor("tcgen05_smem", dtype)


def alloc_tcgen05_instr_desc(dtype: Any = "uint32") -> Buffer:
    """A word for an instruction's descriptor. Raises as `T.alloc_descriptor`."""
    return alloc_descriptor("tcgen05_instr", dtype)


alloc_tcgen05_instruction_desc = alloc_tcgen05_instr_desc
"""As `T.alloc_tcgen05_instr_desc`."""


def initialize_tcgen05_descriptor(
    descriptor: Any,
    start_address: Any,
    leading_byte_offset: int,
    stride_byte_offset: int,
    base_offset: int = 0,
    leading_is_absolute: bool = False,
    swizzle_mode: int = 0,
) -> None:
    """Let a descriptor name the operand that begins at `start_address` in shared memory.

    Args:
        leading_byte_offset, stride_byte_offset: the distances, in units of 16 bytes, as for wgmma.
        base_offset, leading_is_absolute: 0 and `False`: tiles begin where a swizzle's pattern does.
        swizzle_mode: 0 without a swizzle, 2, 4 and 6 for rows of 128, 64 and 32 bytes.

    Raises:
        OpArgumentError: no shared memory, no descriptor, another swizzle, a distance that does not fit, an offset.
    """
    what = "initialize_tcgen05_descriptor"
    address = shared_address(start_address, f"{what}: start_address")
    if swizzle_mode not in _SPANS or base_offset != 0 or leading_is_absolute:
        raise OpArgumentError(
            f"{what}: swizzle_mode={swizzle_mode!r}, base_offset={base_offset!r}, {leading_is_absolute=}",
            remedy="give a swizzle of 0, 2, 4 or 6, and leave the others out",
        )
    distances = distances_in_bytes(what, leading_byte_offset, stride_byte_offset)
    store_descriptor(descriptor, what, tcgen05_descriptor(address, **distances, swizzle=_SPANS[swizzle_mode]))


def tcgen05_before_thread_sync() -> None:
    """What this thread has done to tensor memory is ordered before a barrier that follows."""
    issue(tcgen05_fence("before"), "")


def tcgen05_after_thread_sync() -> None:
    """What this thread does to tensor memory is ordered after a barrier that was passed."""
    issue(tcgen05_fence("after"), "")


def tcgen05_mma_arrive(mbar: Any, arrive_2cta: bool = False) -> None:
    """One arrival at a barrier when the products that this thread has begun are done; each warp elects a thread.

    Raises:
        OpArgumentError: no barrier, or `arrive_2cta`, which is not implemented.
    """
    if arrive_2cta:
        raise OpArgumentError("tcgen05_mma_arrive: arrive_2cta is not implemented", remedy="leave it out")
    buffer, index = place(mbar, "tcgen05_mma_arrive: mbar", (BARRIER, CLUSTER_BARRIER))
    by_one(tcgen05_commit(tirx.address_of(tirx.BufferLoad(buffer.ir, index))))


def by_one(call: ir.Call) -> None:
    """An instruction of one thread of each warp that comes by."""
    builder = current_builder()
    with builder.frame(device=True) as frame:
        issue(call, "")
    builder.emit(S.IfThenElse(elect(), frame.body(builder.span), None, builder.span))


def ptx_tcgen05_mma_ss(
    kind_dtype: Any,
    desc_a: Any,
    A_offset: Any,
    desc_b: Any,
    B_offset: Any,
    C_ptr: Any,
    C_offset: Any,
    desc_val: int,
    scale_out: Any,
    mask0: int,
    mask1: int,
    mask2: int,
    mask3: int,
    enable_ws: bool = False,
    enable_2cta: bool = False,
    ws: bool | None = None,
    warp_specialized: bool | None = None,
    variant: str | None = None,
) -> None:
    """Begin C = A B (+ C where `scale_out` is not 0) in tensor memory; each warp that comes by elects a thread.

    Args:
        kind_dtype: a dtype of the operands, which names the kind of product.
        desc_a, A_offset, desc_b, B_offset: descriptors, and how many units of 16 bytes behind them the operand begins.
        C_ptr, C_offset: a tile of `T.alloc_tmem`, and columns of it to skip.
        desc_val: the instruction's descriptor, an int known while tracing.
        mask0, mask1, mask2, mask3: 0: all lanes are written.
        enable_ws, enable_2cta, ws, warp_specialized, variant: of forms that are not implemented.

    Raises:
        OpArgumentError: no such instruction, descriptor or tile, a mask, or one of the other forms.
        UnsupportedOnTargetError: when compiled for an architecture without it.
    """
    what = "ptx_tcgen05_mma_ss"
    _require_plain(what, (mask0, mask1, mask2, mask3), (enable_ws, enable_2cta, ws, warp_specialized, variant))
    instruction, forms = _decoded(what, kind_dtype, desc_val)
    a, b = advanced(desc_a, A_offset, f"{what}: A"), advanced(desc_b, B_offset, f"{what}: B")
    d = columns(C_ptr, C_offset, f"{what}: C")
    keep = number(scale_out, f"{what}: scale_out")
    try:
        by_one(tcgen05_mma(d, a, b, keep, instruction=instruction, **forms))
    except ValueError as error:
        raise OpArgumentError(f"{what}: {error}", remedy="change the descriptor") from None


def ptx_tcgen05_mma_ts(
    kind_dtype: Any,
    A_ptr: Any,
    A_offset: Any,
    desc_b: Any,
    B_offset: Any,
    C_ptr: Any,
    C_offset: Any,
    desc_val: int,
    scale_out: Any,
    mask0: int,
    mask1: int,
    mask2: int,
    mask3: int,
    enable_2cta: bool = False,
) -> None:
    """As `T.ptx_tcgen05_mma_ss`, with A in tensor memory: a tile of `T.alloc_tmem`, from the column `A_offset` on."""
    what = "ptx_tcgen05_mma_ts"
    _require_plain(what, (mask0, mask1, mask2, mask3), (enable_2cta,))
    instruction, forms = _decoded(what, kind_dtype, desc_val)
    if forms.pop("a_trans"):
        raise OpArgumentError(f"{what}: A in tensor memory lies by rows", remedy="clear its bit of the descriptor")
    a, b = columns(A_ptr, A_offset, f"{what}: A"), advanced(desc_b, B_offset, f"{what}: B")
    d = columns(C_ptr, C_offset, f"{what}: C")
    keep = number(scale_out, f"{what}: scale_out")
    try:
        by_one(tcgen05_mma_ts(d, a, b, keep, instruction=instruction, **forms))
    except ValueError as error:
        raise OpArgumentError(f"{what}: {error}", remedy="change the descriptor") from None


def _require_plain(what: str, masks: tuple[Any, ...], forms: tuple[Any, ...]) -> None:
    if any(mask != 0 for mask in masks) or any(forms):
        raise OpArgumentError(
            f"{what}: masks {masks}, forms {forms} are not implemented", remedy="write all lanes, by one block"
        )


def _decoded(what: str, kind_dtype: Any, desc_val: Any) -> tuple[Any, dict[str, Any]]:
    value = regions.constant(unwrap(desc_val)) if isinstance(desc_val, Value) else desc_val
    ptx_type = PTX_TYPES.get(dtype_name(kind_dtype))
    known = {"f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s8", "u8"}
    found = None
    if isinstance(value, int) and ptx_type in known:
        found = decoded("tf32" if ptx_type == "f32" else ptx_type, value)
    if found is None:
        raise OpArgumentError(
            f"{what}: {desc_val!r} describes no product of {kind_dtype} with 128 rows",
            remedy='give a constant as PTX\'s "Instruction descriptor" says',
        )
    return found


def columns(operand: Any, offset: Any, what: str) -> ir.Expr:
    """The address of columns in tensor memory."""
    buffer, index = place(operand, what, (TENSOR_MEMORY,))
    if any(regions.constant(each) != 0 for each in index):
        raise OpArgumentError(f"{what}: an element of {buffer.name}", remedy="give the tile, and columns to skip")
    return _first(buffer) if isinstance(offset, int) and offset == 0 else _moved(buffer, offset, what)


def _moved(buffer: Buffer, offset: Any, what: str) -> ir.Expr:
    at = ir.Call(tile_op(AT, pure=True), [_first(buffer)], ret_ty=ir.PrimType("uint32"))
    return at + tirx.Cast("uint32", number(offset, f"{what}: the offset"))
