"""Block-scaled products in tensor memory by hand, and the way of their factors there (sm_100 and its family).

Four factors of a row are a word; 128 rows are a chunk of 128 words in shared memory. `T.tcgen05_sf_warp_transpose`
orders a chunk, `T.tcgen05_cp_warpx4` copies it to four columns of tensor memory. Everything here is printed, compiled
for sm_100a and emulated, and has not run on hardware.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import ir, tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import Buffer, Value, unwrap
from tile_core.ir import regions
from tile_cuda.instructions.block_scaled import (
    CHUNK_COLUMNS,
    CHUNK_WORDS,
    kind_of,
    tcgen05_copy_words,
    tcgen05_mma_scaled,
    tcgen05_transpose_words,
)
from tile_cuda.instructions.tcgen05 import tcgen05_descriptor
from tile_cuda.language._instructions import dtype_name, issue, number, place
from tile_cuda.language.tcgen05 import by_one, columns
from tile_cuda.language.wgmma import advanced
from tile_cuda.matrix.operands import reading

__all__ = ["ptx_tcgen05_mma_blockscaled_ss", "tcgen05_cp_warpx4", "tcgen05_sf_warp_transpose"]

_LINES_OF_EIGHT = 128
"""Bytes of eight lines of 16 bytes."""


def tcgen05_sf_warp_transpose(smem_src: Any) -> None:
    """Order the factors of each 128 rows as `T.tcgen05_cp_warpx4` wants them: row r goes to word r % 32 * 4 + r / 32.

    The lanes of the warp that comes by do it together, of which there should be one.

    Args:
        smem_src: a shared buffer of one axis, 32 bits an element, whose length is a multiple of 128.

    Raises:
        OpArgumentError: another buffer.
    """
    for chunk in _chunks("tcgen05_sf_warp_transpose", smem_src):
        issue(tcgen05_transpose_words(chunk))


def tcgen05_cp_warpx4(smem_src: Any, tmem_dst: Any, tmem_col_offset: Any = 0, *, use_2cta: bool = False) -> None:
    """Begin to copy each chunk of 128 words to four columns of tensor memory; each warp that comes by elects a thread.

    Products that the thread begins later see the words; `T.tcgen05_mma_arrive` covers the copy, too.

    Args:
        smem_src: as for `T.tcgen05_sf_warp_transpose`.
        tmem_dst: a tile of `T.alloc_tmem`, 32 bits an element.
        tmem_col_offset: columns of it to skip.
        use_2cta: of pairs of blocks, which are not implemented.

    Raises:
        OpArgumentError: other operands, or `use_2cta`.
    """
    what = "tcgen05_cp_warpx4"
    if use_2cta:
        raise OpArgumentError(f"{what}: use_2cta is not implemented", remedy="leave it out")
    skipped = number(tmem_col_offset, f"{what}: tmem_col_offset")
    for at, chunk in enumerate(_chunks(what, smem_src)):
        source = tcgen05_descriptor(chunk, leading_bytes=0, stride_bytes=_LINES_OF_EIGHT, swizzle=0)
        column = skipped + tirx.IntImm("int32", at * CHUNK_COLUMNS)
        by_one(tcgen05_copy_words(columns(tmem_dst, column, f"{what}: tmem_dst"), reading(source)))


def _chunks(what: str, operand: Any) -> list[ir.Expr]:
    """The addresses of the chunks of a buffer."""
    buffer, index = place(operand, f"{what}: smem_src", regions.SHARED)
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    whole = isinstance(operand, Buffer) or all(regions.constant(each) == 0 for each in index)
    words = prod(extents) if len(extents) == buffer.ndim else 0
    if buffer.ndim != 1 or buffer.dtype.bits != 32 or not whole or not words or words % CHUNK_WORDS:
        raise OpArgumentError(
            f"{what}: {buffer.name} of shape {buffer.shape} and {buffer.dtype}",
            remedy='give a whole buffer of words, 128 for 128 rows: T.alloc_shared((128,), "uint32")',
        )
    return [tirx.address_of(tirx.BufferLoad(buffer.ir, [unwrap(first)])) for first in range(0, words, CHUNK_WORDS)]


def ptx_tcgen05_mma_blockscaled_ss(
    kind_dtype: Any,
    desc_a: Any,
    A_offset: Any,
    desc_b: Any,
    B_offset: Any,
    C_ptr: Any,
    C_offset: Any,
    desc_val: Any,
    scale_out: Any,
    sfa_ptr: Any,
    sfa_offset: Any,
    sfb_ptr: Any,
    sfb_offset: Any,
    reserved0: Any = 0,
    reserved1: Any = 0,
    enable_2cta: bool = False,
) -> None:
    """Begin a block-scaled product in tensor memory; each warp that comes by elects a thread.

    Floats of 8, 6 and 4 bits may be mixed (mxf8f6f4, a factor for 32 of K); two of four bits in each byte are mxf4 (a
    factor for 32) or nvf4 (for 16), by the scale format of the descriptor. 6 and 4 bits beside 8 lie 16 in 16 bytes.

    Args:
        kind_dtype: the dtype of A.
        desc_a, A_offset, desc_b, B_offset, C_ptr, C_offset, scale_out: as for `T.ptx_tcgen05_mma_ss`.
        desc_val: the instruction's descriptor, an int known while tracing.
        sfa_ptr, sfa_offset, sfb_ptr, sfb_offset: tiles of `T.alloc_tmem` with the factors, and columns to skip.
        reserved0, reserved1: 0.
        enable_2cta: of products of two blocks, which are not implemented.

    Raises:
        OpArgumentError: no such instruction, descriptor or tile, or `enable_2cta`.
        UnsupportedOnTargetError: when compiled for an architecture without it.
    """
    what = "ptx_tcgen05_mma_blockscaled_ss"
    if enable_2cta or reserved0 or reserved1:
        raise OpArgumentError(f"{what}: enable_2cta is not implemented", remedy="leave it and what is reserved out")
    value = regions.constant(unwrap(desc_val)) if isinstance(desc_val, Value) else desc_val
    kind = kind_of(dtype_name(kind_dtype), value) if isinstance(value, int) else None
    if kind is None:
        raise OpArgumentError(
            f"{what}: {desc_val!r} describes no block-scaled product of {kind_dtype} with 128 rows",
            remedy='give a constant as PTX\'s "Instruction descriptor" says, of mxf8f6f4, mxf4 or mxf4nvf4',
        )
    operands = (
        columns(C_ptr, C_offset, f"{what}: C"),
        advanced(desc_a, A_offset, f"{what}: A"),
        advanced(desc_b, B_offset, f"{what}: B"),
        tirx.IntImm("uint32", value),
        columns(sfa_ptr, sfa_offset, f"{what}: sfa_ptr"),
        columns(sfb_ptr, sfb_offset, f"{what}: sfb_ptr"),
        number(scale_out, f"{what}: scale_out"),
    )
    by_one(tcgen05_mma_scaled(*operands, kind=kind))
