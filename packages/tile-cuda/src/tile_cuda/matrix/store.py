"""Results of matrix instructions to a swizzled tile, four 8 × 8 matrices at a time (`stmatrix`, sm_90 and later).

The order of a result's registers is that of the matrices: eight of them, two neighbouring groups of columns, are one
instruction. The rows that the lanes address are 16 bytes of different banks, thanks to the tile's order.
"""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.layouts.digits import Digit, DigitMapping
from tile_core.ops.base import OpCall
from tile_core.ops.build import cast
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.ldmatrix import stmatrix
from tile_cuda.matrix.operands import accessing
from tile_cuda.matrix.warp import WARP

ELEMENTS = 8
FIRST_COLUMN = "first_column"
"""Attribute of a copy that takes only as many columns of a result as its tile has, from this one on."""


def matrix_store(call: OpCall, scope: ThreadScope) -> S.Stmt | None:
    """The copy `call` of a whole result into a tile of 16-bit elements; `None` for any other."""
    src, dst = call.region("src").source, call.region("dst").source
    held = scope.registers.get(src)
    if held is None or dst not in scope.tiles or int(dst.dtype.bits) != 16:
        return None
    mapping = held.placement.mapping
    if not isinstance(mapping, DigitMapping) or not is_in_matrices(mapping):
        return None
    dtype = as_dtype(str(dst.dtype))
    repeats, pairs = mapping.steps[0] // 2, mapping.steps[1] // 2
    first = call.attrs.get(FIRST_COLUMN)
    if first is not None:
        columns = int(dst.shape[-1])
        if any(digit.count > 1 for digit in mapping.axes[1][3:]) or columns % (2 * ELEMENTS):
            return None
        pairs = columns // (2 * ELEMENTS)
    skipped = 0 if first is None else int(first)

    def one(repeat: ir.Var, pair: ir.Var) -> S.Stmt:
        packed = tirx.decl_buffer((ELEMENTS,), str(dst.dtype), "packed", scope=regions.LOCAL, data_alignment=16)
        element = tirx.Var("element", "int32")
        steps = [repeat * 2, pair * 2 + skipped // ELEMENTS]
        value = tirx.BufferLoad(held.array, [mapping.register(steps, 0) + element])
        convert = S.BufferStore(packed, cast(value, dtype), [element], call.span)
        row, column = matrix_row(mapping, steps, scope.thread)
        place = [row, column - skipped]
        address = tirx.address_of(tirx.BufferLoad(dst, place))
        store = stmatrix(address, tirx.address_of(tirx.BufferLoad(packed, [int32(0)])), count=4)
        return visit.sequence(
            [
                S.AllocBuffer(packed, span=call.span),
                unrolled(element, ELEMENTS, convert),
                S.Evaluate(accessing(store, "w"), call.span),
            ],
            call.span,
        )

    repeat, pair = tirx.Var("repeat", "int32"), tirx.Var("pair", "int32")
    return phase(unrolled(repeat, repeats, unrolled(pair, pairs, one(repeat, pair))))


def matrix_row(mapping: DigitMapping, steps: list[ir.Expr], thread: ir.Expr) -> list[ir.Expr]:
    """The element that a lane names: it begins a row of one of the four matrices whose registers begin at `steps`."""
    lane = tirx.floormod(thread, int32(WARP))
    row, column = mapping.indices(tirx.floordiv(thread, int32(WARP)) * WARP, steps)
    return [row + tirx.floormod(lane, int32(16)), column + tirx.floordiv(lane, int32(16)) * ELEMENTS]


def is_in_matrices(mapping: DigitMapping) -> bool:
    """Whether the registers of a fragment, eight at a time, are those of four matrices."""
    if len(mapping.axes) != 2:
        return False
    rows, columns = mapping.axes
    return (
        rows[:2] == (Digit(8, stride=4), Digit(2, rank=1))
        and columns[:2] == (Digit(2, rank=0, lane=True), Digit(4, stride=1))
        and columns[2].is_step
        and columns[2].count % 2 == 0
    )


def unrolled(var: ir.Var, count: int, body: S.Stmt) -> S.Stmt:
    """`body` for `count` values of `var`, written out."""
    return S.For(var, int32(0), int32(count), S.ForKind.UNROLLED, body, span=body.span)
