"""Values of four bits, two to a byte along the last axis, the first in the low half: indices, extents and bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.integers import is_index_arithmetic
from tile_core.ir.regions import constant

BITS = 4
MASK, SIGN = 15, 8
TWICE = 17
"""Factor that puts four bits in both halves of a byte."""


class Parity:
    """Which indices are even: `even` are names that are; `bind` tells what another name stands for.

    >>> from tvm import tirx
    >>> i = tirx.Var("i", "int32")
    >>> Parity().is_even(i * 2), Parity().is_even(i), Parity([i]).is_even(i)
    (True, False, True)
    """

    def __init__(self, even: Iterable[ir.Var] = ()) -> None:
        self._facts = Analyzer()
        for name in even:
            self._facts.bind(name, tirx.Var(str(name.name), name.ty) * 2)

    def bind(self, name: ir.Var, value: ir.Expr) -> None:
        """What a name stands for, where it is an index."""
        if is_index_arithmetic(value) and not visit.collect(value, ir.TensorLoad):
            self._facts.bind(name, value)

    def is_even(self, value: ir.Expr) -> bool:
        """Whether an index is provably even."""
        number = constant(value)
        if number is not None:
            return number % 2 == 0
        if not is_index_arithmetic(value):
            return False
        return self._facts.is_multiple(value, 2)


def halved(value: ir.Expr) -> ir.Expr:
    """An extent, a stride or an index in bytes, rounded down."""
    number = constant(value)
    if number is not None:
        return E.IntImm(value.ty, number // 2)
    half = tirx.floordiv(value, E.IntImm(value.ty, 2))
    return Analyzer().simplify(half) if is_index_arithmetic(half) else half


def parity(value: ir.Expr) -> ir.Expr:
    """Which half of its byte an index names: 0 for the low one."""
    number = constant(value)
    if number is not None:
        return E.IntImm(value.ty, number % 2)
    rest = tirx.floormod(value, E.IntImm(value.ty, 2))
    return Analyzer().simplify(rest) if is_index_arithmetic(rest) else rest


def byte_place(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The index of the byte that holds the element at `indices`."""
    *outer, last = indices
    return [*outer, halved(last)]


def nibble(packed: ir.Expr, last: ir.Expr, *, is_signed: bool) -> ir.Expr:
    """The int32 in the half, of a byte `packed`, that the element with the last index `last` is."""
    shift = tirx.IntImm("int32", BITS) * parity(last)
    word = packed if str(packed.ty.dtype) == "int32" else E.Cast("int32", packed)
    moved = word if constant(shift) == 0 else E.RShift(word, shift)
    bits = E.BitwiseAnd(moved, tirx.IntImm("int32", MASK))
    sign = tirx.IntImm("int32", SIGN)
    return E.Sub(E.BitwiseXor(bits, sign), sign) if is_signed else bits


def pair(low: ir.Expr, high: ir.Expr) -> ir.Expr:
    """The byte of two values of four bits, of whose uint8 only the low bits count for the second."""
    return E.BitwiseOr(unsigned(low), E.LShift(high, E.IntImm("uint8", BITS)))


def unsigned(value: ir.Expr) -> ir.Expr:
    """The low four bits of a uint8."""
    return E.BitwiseAnd(value, E.IntImm("uint8", MASK))


def signed(value: ir.Expr) -> ir.Expr:
    """The low four bits of an int8, with their sign."""
    low, sign = (E.IntImm("int8", number) for number in (MASK, SIGN))
    return E.Sub(E.BitwiseXor(E.BitwiseAnd(value, low), sign), sign)
