"""How matrix instructions take floats of six and four bits: as their codes, in one of two forms.

`BYTES`: one code a byte, as tiles of six bits are already. `UNITS`: sixteen codes along K in sixteen bytes, packed from
the first bit on, so that the last four (six bits) or eight (four bits) bytes of each hold nothing. Either way a tile of
codes has as many bytes as values, and lies in shared memory like one of 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.ir import nibbles, regions, visit
from tile_core.ir.codes import BYTE, UNIT
from tile_core.ops.base import OpCall
from tile_core.ops.build import parallel

Load = Callable[[ir.Expr, ir.Expr], ir.Expr]
_GROUP, _GROUP_BYTES = 4, 3
"""Codes of six bits that are whole bytes together."""


class Form(Enum):
    """See the module."""

    BYTES = "bytes"
    UNITS = "units"


CodedOperands: TypeAlias = Callable[[OpCall, int, Mapping[str, Any]], Mapping[str, Form]]
"""A target's instructions for products of floats of which one at least has less than 8 bits.

Of a `tile.gemm`, the threads of its block and the pass configs: the form of each such operand by its side; nothing
where no instruction makes the product.
"""


def no_forms(_call: OpCall, _threads: int, _options: Mapping[str, Any]) -> Mapping[str, Form]:
    """Those of a target that has no such instructions."""
    return MappingProxyType({})


def packed_units(
    name: str, extents: Sequence[int | None], dtype: DType, load: Load, *, in_bytes: bool, span: ir.Span | None
) -> tuple[ir.Var, S.Stmt]:
    """A shared tile of units for a matrix of `extents` values of `dtype`, K last, and the loops that fill it.

    `load(row, column)` is a code as uint8, or with `in_bytes` a byte of two codes.
    """
    rows, depth = extents
    assert rows is not None and depth is not None
    tile = tirx.decl_buffer((rows, depth), "uint8", f"{name}_units", scope=regions.SHARED[0], data_alignment=1)
    each = UNIT * dtype.bits // BYTE
    in_a_unit = each if dtype.bits == nibbles.BITS else UNIT // _GROUP

    def fill(index: list[ir.Expr]) -> S.Stmt:
        row, unit, at = index
        first, place = unit * in_a_unit + at, unit * UNIT
        if dtype.bits == nibbles.BITS:
            byte = load(row, first) if in_bytes else nibbles.pair(load(row, first * 2), load(row, first * 2 + 1))
            return S.BufferStore(tile, byte, [row, place + at], span)
        codes = [load(row, first * _GROUP + code) for code in range(_GROUP)]
        return visit.sequence(
            [
                S.BufferStore(tile, byte, [row, place + at * _GROUP_BYTES + number], span)
                for number, byte in enumerate(_bytes_of_six(codes))
            ],
            span,
        )

    counts = [tirx.IntImm("int32", count) for count in (rows, depth // UNIT, in_a_unit)]
    return tile, parallel(counts, fill, span)


def _bytes_of_six(codes: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The three bytes of four codes of six bits."""

    def shifted(kind: Any, value: ir.Expr, count: int) -> ir.Expr:
        return kind(value, E.IntImm("uint8", count))

    first, second, third, fourth = codes
    return [
        E.BitwiseOr(first, shifted(E.LShift, second, 6)),
        E.BitwiseOr(shifted(E.RShift, second, 2), shifted(E.LShift, third, 4)),
        E.BitwiseOr(shifted(E.RShift, third, 4), shifted(E.LShift, fourth, 2)),
    ]
