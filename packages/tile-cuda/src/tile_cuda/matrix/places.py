"""The metadata of sparse instructions: each thread puts a word together from the places that the tile E holds."""

from __future__ import annotations

from tvm import ir, tirx

from tile_core.layouts.registers import coordinates
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import transposed
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.shapes import MatrixInstruction
from tile_cuda.matrix.warp import QUAD

_BITS = 4
"""Bits of E, and of a word, for a chunk."""


def places(instruction: MatrixInstruction, call: OpCall, thread: ir.Expr, row: ir.Expr, step: ir.Expr) -> ir.Expr:
    """The uint32 of `thread` (of a warp or a warpgroup) for the rows from `row` on and step `step` along K.

    Selector 0 looks at the first threads of each four. What lies beyond a tensor is zero, which names one place twice:
    the second one becomes 1.
    """
    layout, region = instruction.metadata_layout, call.region("e")
    bits, count = int(region.source.dtype.bits), instruction.metadata_threads
    per, chunks = bits // _BITS, instruction.k // instruction.chunk
    lane = tirx.floordiv(thread, int32(QUAD)) * count
    lane = lane + tirx.floormod(tirx.floormod(thread, int32(QUAD)), int32(count))
    lane_row, lane_chunk = coordinates(layout.lane_digits, lane)
    *leading, first, second = (axis.min for axis in region.region)
    word: ir.Expr = tirx.const(0, "uint32")
    for register in range(0, layout.registers, per):
        own_row, own_chunk = coordinates(layout.register_digits, int32(register))
        outer = row + lane_row + own_row
        inner = tirx.floordiv(step * chunks + lane_chunk + own_chunk, int32(per))
        rows, columns = (inner, outer) if transposed(call, "e") else (outer, inner)
        value = tirx.BufferLoad(region.source, [*leading, first + rows, second + columns])
        part = tirx.bitwise_and(value.astype("uint32"), tirx.const((1 << bits) - 1, "uint32"))
        word = tirx.bitwise_or(word, tirx.shift_left(part, tirx.const(_BITS * register, "uint32")))
    seconds = tirx.bitwise_or(word, tirx.shift_right(word, tirx.const(1, "uint32")))
    missing = tirx.bitwise_and(tirx.bitwise_not(seconds), tirx.const(0x44444444, "uint32"))
    return tirx.bitwise_or(word, missing)


def places_refusal(call: OpCall, instruction: MatrixInstruction) -> str:
    """Why an instruction cannot read E; empty where it can: a word has four chunks of a row of 16-bit operands."""
    halves = instruction.operand_bits == 16 and call.region("e").source.dtype.bits == 32
    return "E of 16-bit operands has elements of 8 or 16 bits" if halves else ""
