"""Fragments of 16-bit elements from a swizzled tile, four 8 × 8 matrices at a time (`ldmatrix`).

The counterpart of `store.py`: an operand that stays in registers is read as results are written, eight registers by one
instruction and without bank conflicts, where loops would load them two by two.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.layouts.digits import DigitMapping
from tile_core.ops.base import OpCall
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.ldmatrix import ldmatrix
from tile_cuda.matrix.operands import reading
from tile_cuda.matrix.store import is_in_matrices, matrix_row, unrolled


def matrix_load(call: OpCall, scope: ThreadScope) -> S.Stmt | None:
    """The copy `call` of a whole tile into a fragment of the same 16-bit elements; `None` for any other."""
    src, dst = call.region("src").source, call.region("dst").source
    held = scope.registers.get(dst)
    if held is None or src not in scope.tiles or src.dtype != dst.dtype or int(dst.dtype.bits) != 16:
        return None
    mapping = held.placement.mapping
    if not isinstance(mapping, DigitMapping) or not is_in_matrices(mapping):
        return None
    repeat, pair = tirx.Var("repeat", "int32"), tirx.Var("pair", "int32")
    steps = [repeat * 2, pair * 2]
    registers = tirx.address_of(tirx.BufferLoad(held.array, [int32(1) * mapping.register(steps, 0)]))
    row = tirx.address_of(tirx.BufferLoad(src, matrix_row(mapping, steps, scope.thread)))
    load = S.Evaluate(reading(ldmatrix(registers, row, count=4)), call.span)
    pairs = unrolled(pair, mapping.steps[1] // 2, load)
    return phase(unrolled(repeat, mapping.steps[0] // 2, pairs))
