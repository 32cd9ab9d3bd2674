"""Which values an integer expression can have, so that floor division becomes C's where the two agree.

TVM's bounds take integers for unbounded: a cast that wraps keeps the bound of its operand there. Here an operation that
can leave the range of its type has every value of it. Sizes that only a call knows are taken to be at most a quarter of
their type's range, which any tensor of that many elements satisfies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as P

from tile_core.ir import visit

Node = Any


@dataclass(frozen=True)
class Interval:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int

    def hull(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, outer: Interval) -> bool:
        """Whether `outer` contains this one."""
        return outer.low <= self.low and self.high <= outer.high


def of_dtype(node: Node) -> Interval:
    """Every value of the dtype of `node`."""
    return _of_dtype(str(node.ty.dtype))


@functools.cache
def _of_dtype(dtype: str) -> Interval:
    bits = tvm_ffi.dtype(dtype).bits
    if dtype.startswith("int"):
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Interval(0, (1 << bits) - 1)


def of_size(node: Node) -> Interval:
    """The values of an extent that is not known until the call."""
    return Interval(0, of_dtype(node).high // 2)


_FAR_FROM_THE_ENDS = Interval(-(1 << 28), 1 << 28)
"""Block, thread and loop indices of any launch that exists lie here."""


def _corners(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """For a function that is monotone in each operand: the extremes lie at the ends."""

    def apply(a: Interval, b: Interval) -> Interval:
        values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(values), max(values))

    return apply


def _floordiv(a: Interval, b: Interval) -> Interval | None:
    return _corners(lambda x, y: x // y)(a, b) if b.low > 0 else None


def _floormod(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0:
        return None
    return a if a.low >= 0 and a.high < b.low else Interval(0, b.high - 1)


def _either(a: Interval, b: Interval) -> Interval | None:
    """Bits of one or the other, and so of one but not the other."""
    return Interval(0, (1 << max(a.high, b.high).bit_length()) - 1) if min(a.low, b.low) >= 0 else None


def _both(a: Interval, b: Interval) -> Interval | None:
    highs = [operand.high for operand in (a, b) if operand.low >= 0]
    return Interval(0, min(highs)) if highs else None


def _shift_right(a: Interval, b: Interval) -> Interval | None:
    return Interval(a.low >> b.high, a.high >> b.low) if min(a.low, b.low) >= 0 else None


_Rule = Callable[[Interval, Interval], Interval | None]
_RULES: Mapping[type, _Rule] = MappingProxyType(
    {
        P.Add: _corners(lambda x, y: x + y),
        P.Sub: _corners(lambda x, y: x - y),
        P.Mul: _corners(lambda x, y: x * y),
        P.Min: _corners(min),
        P.Max: _corners(max),
        P.FloorDiv: _floordiv,
        P.FloorMod: _floormod,
        P.BitwiseXor: _either,
        P.BitwiseOr: _either,
        P.BitwiseAnd: _both,
        P.RShift: _shift_right,
    }
)


class Intervals:
    """Intervals of the variables in scope, and of expressions over them."""

    def __init__(self) -> None:
        self._variables: dict[Node, Interval] = {}

    def bind(self, var: Node, interval: Interval) -> None:
        """State the values of a variable."""
        self._variables[var] = interval

    def bind_loop(self, var: Node, start: Node, extent: Node) -> None:
        """State the values of a loop's variable: from `start`, `extent` of them."""
        first, count = self.of(start), self.of(extent)
        last = Interval(first.low, first.high + max(0, count.high - 1))
        self.bind(var, last if last.within(of_dtype(var)) else of_dtype(var))

    def of(self, node: Node) -> Interval:
        """The values that `node` can have; all of its dtype where nothing else is known."""
        whole = of_dtype(node)
        found = self._found(node)
        return found if found is not None and found.within(whole) else whole

    def overflows(self, node: Node) -> bool:
        """Whether a sum, difference or product may leave the range of its dtype."""
        found = self._found(node)
        return found is None or not found.within(of_dtype(node))

    def knows(self, node: Node) -> bool:
        """Whether all variables are known to be far from the ends of their range, as sizes are only taken to be."""
        bounds = (self._variables.get(var) for var in visit.collect(node, ir.Var))
        return all(found is not None and found.within(_FAR_FROM_THE_ENDS) for found in bounds)

    def _found(self, node: Node) -> Interval | None:
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self.of(node.a), self.of(node.b))
        if isinstance(node, tirx.IntImm):
            return Interval(int(node.value), int(node.value))
        if isinstance(node, ir.Var):
            return self._variables.get(node)
        if isinstance(node, P.Cast):
            return self.of(node.value) if str(node.value.ty.dtype).startswith(("int", "uint", "bool")) else None
        if isinstance(node, P.Select):
            return self.of(node.true_value).hull(self.of(node.false_value))
        return None
