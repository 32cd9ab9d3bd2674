"""Matrix instructions of one warp, written by hand, and where their elements are.

All lanes of a warp come here together, each with its registers in arrays of `T.alloc_local`; `T.gemm` chooses and
places the same instructions by itself. PTX ISA, "mma", "ldmatrix".
"""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend.values import Value, unwrap
from tile_core.ir import regions
from tile_cuda.instructions.ldmatrix import ldmatrix
from tile_cuda.instructions.mma import mma, mma_sp
from tile_cuda.instructions.mma_scaled import WORDS, mma_scaled
from tile_cuda.instructions.mma_scaled import find as find_scaled
from tile_cuda.instructions.shapes import BITS, MatrixInstruction
from tile_cuda.language._instructions import (
    dtype_name,
    issue,
    matrix_instruction,
    number,
    place,
    registers,
    shared_address,
    word,
)
from tile_cuda.language.threads import get_lane_idx

__all__ = [
    "get_ldmatrix_offset",
    "get_mma_micro_size",
    "mma_fill",
    "mma_store",
    "mma_store_index_map",
    "ptx_ldmatrix",
    "ptx_mma",
    "ptx_mma_block_scale",
    "ptx_mma_sp",
]

_TILE = 16
_REGISTER_BITS = 32
_ROWS_OF_A_MATRIX = 8
_UNIT_BYTES = 16


def _bits(instruction: MatrixInstruction, operand: int) -> int:
    """The bits of D, A or B that a lane holds."""
    layout = (instruction.d_layout, instruction.a_layout, instruction.b_layout)[operand]
    assert layout is not None
    return layout.registers * BITS[instruction.types[operand]]


def _require_order(what: str, a_layout: Any, b_layout: Any, saturate: Any) -> None:
    if (str(a_layout), str(b_layout)) != ("row", "col"):
        raise OpArgumentError(
            f"{what}: A by {a_layout!r} and B by {b_layout!r}", remedy='mma reads A by "row" and B by "col"'
        )
    value = regions.constant(unwrap(saturate)) if isinstance(saturate, Value) else saturate
    if value is None or value:
        raise OpArgumentError(f"{what}: saturate={saturate!r}", remedy="clamp the sums yourself: sums wrap around")


def ptx_mma(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: Any,
    B_dtype: Any,
    C_dtype: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    saturate: Any = False,
    operator: Any = None,
) -> None:
    """C += A B by one `mma` of a warp.

    Args:
        dtype: that of C, as `C_dtype`.
        shape: such as `"m16n8k16"`.
        A_layout, B_layout: `"row"` and `"col"`, the only ones that there are.
        A_dtype, B_dtype, C_dtype: in full, or short as in `"fp16"`, `"tf32"`, `"e4m3"`.
        multiplicand_a, multiplicand_b, accumulator: arrays of `T.alloc_local`, from the element `..._index` on, in the
            order of "Matrix Fragments for mma".

    Raises:
        OpArgumentError: no such instruction, other orders, an array that is too short, `saturate` or `operator`.
        UnsupportedOnTargetError: when compiled for an architecture without it.

    Example:
        T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a, 0, b, 0, c, 0)
    """
    _require_order("ptx_mma", A_layout, B_layout, saturate)
    if operator is not None:
        raise OpArgumentError(f"ptx_mma: operator={operator!r}", remedy="leave it out: there are no products of bits")
    found = matrix_instruction("ptx_mma", "mma", shape, C_dtype, A_dtype, B_dtype)
    a = registers(multiplicand_a, "ptx_mma: A", _bits(found, 1), a_index)
    b = registers(multiplicand_b, "ptx_mma: B", _bits(found, 2), b_index)
    d = registers(accumulator, "ptx_mma: C", _bits(found, 0), c_index)
    issue(mma(d, a, b, instruction=found))


def ptx_mma_block_scale(
    accum_dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    kind: str,
    scale_vec_size: int,
    A_dtype: Any,
    B_dtype: Any,
    scale_type: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    scale_a: Any,
    scale_b: Any,
    scale_a_byte_id: int = 0,
    scale_a_thread_id: int = 0,
    scale_b_byte_id: int = 0,
    scale_b_thread_id: int = 0,
) -> None:
    """C += (A · factors) (B · factors) by one block-scaled `mma` of a warp (sm_120).

    It is printed, compiled for sm_120a and emulated, and has not run on hardware. Arguments as `T.ptx_mma`, and:

    Args:
        kind: `"mxf8f6f4"` of m16n8k32, `"mxf4"` or `"mxf4nvf4"` of m16n8k64.
        scale_vec_size: factors of a row in a step: 1; 2; 2 or 4.
        scale_type: `"ue8m0"`, or `"ue4m3"` of mxf4nvf4 with 4.
        multiplicand_a, multiplicand_b: arrays of 32-bit words or of bytes: one a byte (of 6 bits in its low bits,
            of 4 bits in bits 2 to 5), of m16n8k64 two elements of 4 bits a byte.
        scale_a, scale_b: this lane's words of four factors, 32-bit integers.
        scale_a_byte_id, scale_b_byte_id: the first byte that counts, a multiple of `scale_vec_size`.
        scale_a_thread_id: 0 or 1: of each four lanes the first two, or the last, give the factors of rows r and r + 8.
        scale_b_thread_id: 0 to 3: which of each four lanes gives the factors of its column.

    Raises:
        OpArgumentError: no such instruction or selector, other orders, or an array that is too short.
        UnsupportedOnTargetError: when compiled for an architecture without it.
    """
    what = "ptx_mma_block_scale"
    _require_order(what, A_layout, B_layout, False)
    kind_name = str(kind).removeprefix("kind::")
    scale = {"ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn"}.get(str(scale_type), str(scale_type))
    dtypes = (dtype_name(A_dtype), dtype_name(B_dtype))
    found = find_scaled(kind_name, int(scale_vec_size), scale, *dtypes)
    is_named = found is not None and str(shape) == f"m16n8k{found.kind.k}" and dtype_name(accum_dtype) == "float32"
    if found is None or not is_named:
        raise OpArgumentError(
            f"{what}: no mma of {shape!r}, {kind!r} with scale_vec {scale_vec_size} and {scale_type} takes "
            f"{dtypes[0]} and {dtypes[1]} into {accum_dtype}",
            remedy="into float32: mxf8f6f4 (k32, 1 ue8m0), mxf4 (k64, 2 ue8m0), mxf4nvf4 (k64, 2 ue8m0 or 4 ue4m3)",
        )
    a = registers(multiplicand_a, f"{what}: A", _REGISTER_BITS * WORDS["a"], a_index)
    b = registers(multiplicand_b, f"{what}: B", _REGISTER_BITS * WORDS["b"], b_index)
    d = registers(accumulator, f"{what}: C", _REGISTER_BITS * WORDS["d"], c_index)
    factors = (word(scale_a, f"{what}: scale_a"), word(scale_b, f"{what}: scale_b"))
    selectors = {
        "byte_a": scale_a_byte_id,
        "thread_a": scale_a_thread_id,
        "byte_b": scale_b_byte_id,
        "thread_b": scale_b_thread_id,
    }
    try:
        issue(mma_scaled(d, a, b, *factors, instruction=found, **selectors))
    except ValueError as error:
        raise OpArgumentError(f"{what}: {error}", remedy="give constants that it looks at") from None


def ptx_mma_sp(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: Any,
    B_dtype: Any,
    C_dtype: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    metadata: Any,
    meta_index: Any,
    sparse_selector: int,
    saturate: Any = False,
) -> None:
    """C += A B by one `mma.sp` of a warp: A has two of every four elements, whose places the metadata name.

    Arguments as `T.ptx_mma`, and:

    Args:
        metadata: a 32-bit word of this lane, or an array of them from `meta_index` on.
        sparse_selector: which lanes of each four give their words.

    Raises:
        OpArgumentError: as `T.ptx_mma`, or a selector that the instruction does not have.
    """
    _require_order("ptx_mma_sp", A_layout, B_layout, saturate)
    found = matrix_instruction("ptx_mma_sp", "mma", shape, C_dtype, A_dtype, B_dtype, sparse=True)
    selector = require_selector("ptx_mma_sp", found, sparse_selector)
    a = registers(multiplicand_a, "ptx_mma_sp: A", _bits(found, 1), a_index)
    b = registers(multiplicand_b, "ptx_mma_sp: B", _bits(found, 2), b_index)
    d = registers(accumulator, "ptx_mma_sp: C", _bits(found, 0), c_index)
    described = word(metadata, "ptx_mma_sp: metadata", meta_index)
    issue(mma_sp(d, a, b, described, instruction=found, selector=selector))


def require_selector(what: str, instruction: MatrixInstruction, selector: Any) -> int:
    """The selector of a sparse instruction. Raises OpArgumentError."""
    count = 4 // instruction.metadata_threads
    if not isinstance(selector, int) or not 0 <= selector < count:
        raise OpArgumentError(f"{what}: sparse_selector={selector!r}", remedy=f"give an int from 0 to {count - 1}")
    return selector


def ptx_ldmatrix(trans: Any, num: int, src_access_ptr: Any, dst_access_ptr: Any) -> None:
    """Load `num` (1, 2 or 4) 8 × 8 matrices of 16-bit elements from shared memory into registers of a warp.

    Args:
        trans: whether each is transposed on the way.
        src_access_ptr: lane 8i + r gives row r of matrix i, 16 bytes at a multiple of 16.
        dst_access_ptr: an array of `T.alloc_local`; 2 · `num` elements of 16 bits are written.

    Raises:
        OpArgumentError: another number, another scope, an array that is too short.

    Example:
        T.ptx_ldmatrix(False, 4, T.access_ptr(tile[lane % 16, lane // 16 * 8], "r"), T.access_ptr(a[0], "w"))
    """
    if num not in (1, 2, 4):
        raise OpArgumentError(f"ptx_ldmatrix: {num!r} matrices", remedy="an instruction loads 1, 2 or 4")
    row = shared_address(src_access_ptr, "ptx_ldmatrix: src")
    target = registers(dst_access_ptr, "ptx_ldmatrix: dst", _REGISTER_BITS * num)
    issue(ldmatrix(target, row, count=num, trans=bool(trans)), "r")


def mma_fill(dtype: Any, local_size: int, local_ptr: Any, offset: Any) -> None:
    """Set `local_size` registers of an array of `T.alloc_local` to zero, from the element `offset` on.

    Raises:
        OpArgumentError: another scope, or an array that is too short. OpDTypeError: another dtype than the array's.
    """
    buffer, _index = place(local_ptr, "mma_fill", (regions.LOCAL,))
    if as_dtype(dtype) != buffer.dtype:
        raise OpDTypeError(f"mma_fill: {buffer.name} is {buffer.dtype}, not {as_dtype(dtype)}", remedy="give its dtype")
    registers(local_ptr, "mma_fill", local_size * buffer.dtype.bits, offset)
    for at in range(local_size):
        _buffer, index = place(local_ptr, "mma_fill", (regions.LOCAL,), offset + at)
        buffer.store(tuple(index), 0)


def mma_store(dtype: Any, m: int, n: int, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any) -> None:
    """Store the 16 × 16 sums that a warp holds in 8 registers a lane, as two m16n8 side by side.

    Args:
        dtype: that of the elements.
        m, n: 16.
        dst_ptr: where element (0, 0) goes, in shared or global memory.
        src_ptr: an array of `T.alloc_local`; from `src_offset` on.
        dst_stride: elements from one row to the next; of a matrix, its last extent.

    Raises:
        OpArgumentError: another size or scope, or a stride that is not the matrix's.
    """
    if (m, n) != (_TILE, _TILE):
        raise OpArgumentError(f"mma_store: {m!r} × {n!r}", remedy="store 16 × 16 elements")
    count = _TILE * _TILE // 32
    source, _index = place(src_ptr, "mma_store: src", (regions.LOCAL,))
    target, start = place(dst_ptr, "mma_store: dst", (regions.GLOBAL, *regions.SHARED))
    registers(src_ptr, "mma_store: src", count * source.dtype.bits, src_offset)
    if target.ndim > 1 and regions.constant(unwrap(dst_stride)) != target.shape[-1]:
        raise OpArgumentError(
            f"mma_store: rows of {target.name} are {target.shape[-1]} elements apart, not {dst_stride}",
            remedy="give the last extent, or a buffer of one axis",
        )
    lane = get_lane_idx()
    for at in range(count):
        _source, index = place(src_ptr, "mma_store: src", (regions.LOCAL,), src_offset + at)
        row, column = (number(each, "mma_store") for each in mma_store_index_map(lane, at))
        if target.ndim == 1:
            index_of = [start[0] + row * number(dst_stride, "mma_store: dst_stride") + column]
        else:
            index_of = [*start[:-2], start[-2] + row, start[-1] + column]
        target.store(tuple(index_of), source[tuple(index)])


def mma_store_index_map(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """Row and column, of 16 × 16, of the register `local_id` (below 8) of lane `thread_id`, as `T.mma_store` has them.

    >>> mma_store_index_map(5, 6)
    (9, 10)
    """
    row = local_id % 4 // 2 * 8 + thread_id // 4
    return row, local_id // 4 * 8 + thread_id % 4 * 2 + local_id % 2


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """M, N and K of the product of a warp that `T.ptx_mma` makes in two instructions: K is 32 bytes.

    >>> get_mma_micro_size("int8")
    (16, 16, 32)
    """
    return _TILE, _TILE, 256 // max(8, as_dtype(dtype).bits)


def get_ldmatrix_offset(
    matrix: str, row_idx: Any, col_idx: Any, stride: Any, dtype: Any = "float16", transposed: bool = False
) -> tuple[Any, Any]:
    """Row and column that a lane gives to `T.ptx_ldmatrix` for an operand of 16 rows and 32 bytes a row.

    Args:
        matrix: `"A"`, or `"B"`, which is stored by columns where `transposed`.
        row_idx: the lane.
        col_idx: elements behind the first of the lane's 16 bytes; of elements below a byte, bytes.
        stride: of no meaning; rows and columns are given, not offsets.
        dtype: of 16 bits, or fewer or 32, of which only A and a transposed B are loaded.
        transposed: for 16 bits whether the matrices are transposed on the way.

    Raises:
        OpArgumentError: another matrix, or an operand that is not loaded so.

    >>> get_ldmatrix_offset("A", 17, 0, 64)
    (1, 8)
    """
    if matrix not in ("A", "B"):
        raise OpArgumentError(f"get_ldmatrix_offset: matrix={matrix!r}", remedy='give "A" or "B"')
    bits = as_dtype(dtype).bits
    width = 128 // bits
    if bits != 16 and transposed != (matrix == "B"):
        raise OpArgumentError(
            f"get_ldmatrix_offset: {matrix} of {dtype} with transposed={transposed}",
            remedy="elements of 16 bits alone are transposed on the way",
        )
    first, second = row_idx % _ROWS_OF_A_MATRIX, row_idx % _TILE // _ROWS_OF_A_MATRIX
    half, inner = row_idx // _TILE, col_idx % min(width, _UNIT_BYTES) * max(1, width // _UNIT_BYTES)
    if transposed:
        return first + half * _ROWS_OF_A_MATRIX, second * width + inner
    return first + second * _ROWS_OF_A_MATRIX, half * width + inner
