"""Products of a warpgroup issued one by one (sm_90), with descriptors of their shared operands.

    a = T.alloc_wgmma_desc()
    T.initialize_wgmma_descriptor(a, T.access_ptr(A_shared), 1, 0, 64)     # rows of 128 bytes, swizzled
    T.warpgroup_arrive()
    T.ptx_wgmma_ss("float32", "m64n64k16", True, False, "fp16", "fp16", "fp32", a, 0, b, 0, c, 0, 1, 1, 1)
    T.warpgroup_commit_batch()
    T.warpgroup_wait(0)

All 128 threads come here together. What threads have written to an operand needs `T.fence_proxy_async()` before.
`T.wgmma_gemm` does all of this by itself. PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate".
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import AllocationError, OpArgumentError
from tile_core.frontend.values import Buffer, Expr
from tile_core.ir import regions
from tile_core.language.allocate import alloc_local
from tile_cuda.instructions.descriptors import SWIZZLES, descriptor_advance, smem_descriptor
from tile_cuda.instructions.shapes import BITS, MatrixInstruction
from tile_cuda.instructions.wgmma import wgmma, wgmma_rs, wgmma_sp, wgmma_sp_rs
from tile_cuda.language._instructions import issue, matrix_instruction, number, place, registers, shared_address, word
from tile_cuda.language.matrix import require_selector
from tile_cuda.matrix.operands import reading

__all__ = [
    "alloc_descriptor",
    "alloc_wgmma_desc",
    "increase_descriptor_offset",
    "initialize_wgmma_descriptor",
    "ptx_wgmma_rs",
    "ptx_wgmma_sp_rs",
    "ptx_wgmma_sp_ss",
    "ptx_wgmma_ss",
]

UNIT = 16
"""Bytes that distances of a descriptor are counted in."""
_KINDS = {"wgmma": "uint64", "tcgen05_smem": "uint64", "tcgen05_instr": "uint32"}
_SWIZZLES = {code: span for span, code in SWIZZLES.items()}


def alloc_descriptor(kind: str = "wgmma", dtype: Any = "uint64") -> Buffer:
    """A descriptor of each thread: one number that says where an operand lies in shared memory, and how.

    Args:
        kind: `"wgmma"`, `"tcgen05_smem"`, or `"tcgen05_instr"`, of 32 bits.

    Raises:
        AllocationError: another kind, or another dtype than the kind's.
    """
    if kind not in _KINDS or as_dtype(dtype).name != _KINDS[kind]:
        raise AllocationError(
            f"alloc_descriptor: kind={kind!r} of {dtype}",
            remedy=f"use one of {', '.join(f'{name} of {of}' for name, of in _KINDS.items())}",
        )
    return alloc_local((1,), dtype)


def alloc_wgmma_desc(dtype: Any = "uint64") -> Buffer:
    """A descriptor for `T.ptx_wgmma_ss` and its kin. Raises as `T.alloc_descriptor`."""
    return alloc_descriptor("wgmma", dtype)


def descriptor_of(operand: Any, what: str) -> tuple[Buffer, ir.Expr]:
    """The array that holds a descriptor, and its value. Raises OpArgumentError."""
    buffer, index = place(operand, what, (regions.LOCAL,))
    if buffer.dtype.name != "uint64" or buffer.shape != (1,):
        raise OpArgumentError(
            f"{what}: {buffer.name} of shape {buffer.shape} and {buffer.dtype} is no descriptor",
            remedy="allocate it with T.alloc_wgmma_desc() or T.alloc_tcgen05_smem_desc()",
        )
    return buffer, tirx.BufferLoad(buffer.ir, index)


def initialize_wgmma_descriptor(
    descriptor: Any,
    start_address: Any,
    layout_type_: int = 0,
    leading_byte_offset: int = 0,
    stride_byte_offset: int = 0,
) -> None:
    """Let a descriptor name the operand that begins at `start_address` in shared memory.

    Where the k of an operand are neighbours, rows of 8 are `stride` apart (and units of 16 bytes along k `leading`,
    without a swizzle). Otherwise the next 8 of k are `stride` away, and the next rows of the swizzle `leading`.

    Args:
        layout_type_: 0 without a swizzle, 1, 2 and 3 for rows of 128, 64 and 32 bytes. A swizzled tile begins at a
            multiple of 8 rows.
        leading_byte_offset, stride_byte_offset: the distances, in units of 16 bytes.

    Raises:
        OpArgumentError: no shared memory, no descriptor, another swizzle, a distance that does not fit.
    """
    address = shared_address(start_address, "initialize_wgmma_descriptor: start_address")
    if layout_type_ not in _SWIZZLES:
        raise OpArgumentError(
            f"initialize_wgmma_descriptor: layout_type_={layout_type_!r}", remedy="give 0, or 1, 2 or 3 for a swizzle"
        )
    distances = distances_in_bytes("initialize_wgmma_descriptor", leading_byte_offset, stride_byte_offset)
    made = smem_descriptor(address, **distances, swizzle=_SWIZZLES[layout_type_])
    store_descriptor(descriptor, "initialize_wgmma_descriptor", made)


def distances_in_bytes(what: str, leading: int, stride: int) -> dict[str, int]:
    """The two distances of a descriptor, given in units. Raises OpArgumentError."""
    for distance in (leading, stride):
        if not isinstance(distance, int) or not 0 <= distance < 1 << 14:
            raise OpArgumentError(f"{what}: a distance of {distance!r} units", remedy="give an int from 0 to 16383")
    return {"leading_bytes": leading * UNIT, "stride_bytes": stride * UNIT}


def store_descriptor(operand: Any, what: str, made: ir.Call) -> None:
    """Store a value of a descriptor, which later reads shared memory. Raises OpArgumentError."""
    buffer, _value = descriptor_of(operand, what)
    buffer.store((0,), Expr(reading(made)))


def increase_descriptor_offset(descriptor: Any, offset: Any) -> None:
    """Let a descriptor name what lies `offset` bytes further, a multiple of 16.

    Raises:
        OpArgumentError: no descriptor. OpDTypeError: an offset that is no integer.
    """
    buffer, value = descriptor_of(descriptor, "increase_descriptor_offset")
    moved = descriptor_advance(value, number(offset, "increase_descriptor_offset: offset"))
    buffer.store((0,), Expr(moved))


def advanced(operand: Any, units: Any, what: str) -> ir.Expr:
    """The value of a descriptor `units` of 16 bytes further."""
    _buffer, value = descriptor_of(operand, what)
    if isinstance(units, int) and units == 0:
        return value
    return descriptor_advance(value, number(units, f"{what}: the offset") * UNIT)


def _bits(instruction: MatrixInstruction, operand: str) -> int:
    layout, name = {
        "d": (instruction.d_layout, instruction.types[0]),
        "a": (instruction.a_layout, instruction.types[1]),
    }[operand]
    return layout.registers * BITS[name]


def _forms(what: str, instruction: MatrixInstruction, trans: dict[str, Any], signs: tuple[Any, Any]) -> dict[str, Any]:
    """The order and sign of operands. Raises OpArgumentError."""
    for name, value in zip("ab", signs, strict=True):
        if value not in (1, -1) or (value == -1 and instruction.d == "int32"):
            raise OpArgumentError(f"{what}: scale_in_{name}={value!r}", remedy="give 1, or -1 for floats")
    if any(trans.values()) and BITS[instruction.types[1]] != 16:
        raise OpArgumentError(
            f"{what}: {instruction.a} whose k are no neighbours", remedy="only 16-bit operands lie the other way"
        )
    return {**trans, "scale_a": int(signs[0]), "scale_b": int(signs[1])}


def ptx_wgmma_ss(
    dtype: Any,
    wgmma_prefix: str,
    a_is_k_major: bool,
    b_is_k_major: bool,
    a_dtype_abbrv: Any,
    b_dtype_abbrv: Any,
    accum_dtype_abbrv: Any,
    A_desc: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: int,
    scale_in_b: int,
) -> None:
    """Begin C = A B (+ C where `scale_out` is not 0) by one `wgmma`, both operands in shared memory.

    Args:
        dtype: that of C, as `accum_dtype_abbrv`.
        wgmma_prefix: the shape, such as `"m64n128k16"`.
        a_is_k_major, b_is_k_major: whether the k of an operand are neighbours; others have 16 bits.
        A_desc, A_offset, B_desc, B_offset: descriptors, and how many units of 16 bytes behind them the operand begins.
        C_data, C_offset: an array of `T.alloc_local`, n / 2 elements from there on.
        scale_in_a, scale_in_b: 1, or -1 to negate an operand of floats.

    Raises:
        OpArgumentError: no such instruction, no descriptor, an array that is too short, another sign.
        UnsupportedOnTargetError: when compiled for an architecture without it.
    """
    what = "ptx_wgmma_ss"
    found = matrix_instruction(what, "wgmma", wgmma_prefix, accum_dtype_abbrv, a_dtype_abbrv, b_dtype_abbrv)
    trans = {"a_trans": not a_is_k_major, "b_trans": not b_is_k_major}
    forms = _forms(what, found, trans, (scale_in_a, scale_in_b))
    a, b = advanced(A_desc, A_offset, f"{what}: A"), advanced(B_desc, B_offset, f"{what}: B")
    d = registers(C_data, f"{what}: C", _bits(found, "d"), C_offset)
    issue(wgmma(d, a, b, number(scale_out, f"{what}: scale_out"), instruction=found, **forms))


def ptx_wgmma_rs(
    dtype: Any,
    wgmma_prefix: str,
    b_is_k_major: bool,
    a_dtype_abbrv: Any,
    b_dtype_abbrv: Any,
    accum_dtype_abbrv: Any,
    A_buf: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: int,
    scale_in_b: int,
) -> None:
    """As `T.ptx_wgmma_ss`, with A in registers: an array of `T.alloc_local`, from the element `A_offset` on."""
    what = "ptx_wgmma_rs"
    found = matrix_instruction(what, "wgmma", wgmma_prefix, accum_dtype_abbrv, a_dtype_abbrv, b_dtype_abbrv)
    forms = _forms(what, found, {"b_trans": not b_is_k_major}, (scale_in_a, scale_in_b))
    a = registers(A_buf, f"{what}: A", _bits(found, "a"), A_offset)
    b = advanced(B_desc, B_offset, f"{what}: B")
    d = registers(C_data, f"{what}: C", _bits(found, "d"), C_offset)
    issue(wgmma_rs(d, a, b, number(scale_out, f"{what}: scale_out"), instruction=found, **forms))


def ptx_wgmma_sp_ss(
    dtype: Any,
    wgmma_prefix: str,
    a_is_k_major: bool,
    b_is_k_major: bool,
    a_dtype_abbrv: Any,
    b_dtype_abbrv: Any,
    accum_dtype_abbrv: Any,
    A_desc: Any,
    A_offset: Any,
    E_data: Any,
    E_offset: Any,
    sparse_selector: int,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: int,
    scale_in_b: int,
) -> None:
    """As `T.ptx_wgmma_ss`, of an A with two of every four elements, whose k are neighbours.

    Args:
        E_data, E_offset, sparse_selector: as `metadata`, `meta_index` and `sparse_selector` of `T.ptx_mma_sp`.
    """
    what = "ptx_wgmma_sp_ss"
    names = (accum_dtype_abbrv, a_dtype_abbrv, b_dtype_abbrv)
    found = matrix_instruction(what, "wgmma", wgmma_prefix, *names, sparse=True)
    selector = require_selector(what, found, sparse_selector)
    if not a_is_k_major:
        raise OpArgumentError(f"{what}: a sparse A whose k are no neighbours", remedy="store A by rows")
    forms = _forms(what, found, {"b_trans": not b_is_k_major}, (scale_in_a, scale_in_b))
    a, b = advanced(A_desc, A_offset, f"{what}: A"), advanced(B_desc, B_offset, f"{what}: B")
    d = registers(C_data, f"{what}: C", _bits(found, "d"), C_offset)
    described, keep = word(E_data, f"{what}: E", E_offset), number(scale_out, f"{what}: scale_out")
    issue(wgmma_sp(d, a, b, keep, described, instruction=found, selector=selector, **forms))


def ptx_wgmma_sp_rs(
    dtype: Any,
    wgmma_prefix: str,
    b_is_k_major: bool,
    a_dtype_abbrv: Any,
    b_dtype_abbrv: Any,
    accum_dtype_abbrv: Any,
    A_buf: Any,
    A_offset: Any,
    E_buf: Any,
    E_offset: Any,
    sparse_selector: int,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: int,
    scale_in_b: int,
) -> None:
    """As `T.ptx_wgmma_sp_ss`, with the held elements of A in registers, as in `T.ptx_wgmma_rs`."""
    what = "ptx_wgmma_sp_rs"
    names = (accum_dtype_abbrv, a_dtype_abbrv, b_dtype_abbrv)
    found = matrix_instruction(what, "wgmma", wgmma_prefix, *names, sparse=True)
    selector = require_selector(what, found, sparse_selector)
    forms = _forms(what, found, {"b_trans": not b_is_k_major}, (scale_in_a, scale_in_b))
    a = registers(A_buf, f"{what}: A", _bits(found, "a"), A_offset)
    b = advanced(B_desc, B_offset, f"{what}: B")
    d = registers(C_data, f"{what}: C", _bits(found, "d"), C_offset)
    described, keep = word(E_buf, f"{what}: E", E_offset), number(scale_out, f"{what}: scale_out")
    issue(wgmma_sp_rs(d, a, b, keep, described, instruction=found, selector=selector, **forms))
