"""A mapping stated digit by digit: what matrix instructions prescribe for the tiles that they read and write.

The index along an axis is a number of mixed radix. Each of its digits is either a digit of the thread's number or
counts registers, so that a row may be dealt to lanes, then to registers, then to warps: `(lane 8)(register 2)(warp 4)`.
`SplitMapping` is the special case of one digit of each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.layouts.fragment import Fragment
from tile_core.layouts.mapping import Lane


@dataclass(frozen=True)
class Digit:
    """One digit with `count` values.

    With a `stride` it is `thread // stride % count`. Without one it counts registers, and `rank` orders it among the
    register digits of a tile, the fastest first; `lane` marks the digit whose registers are one vector.
    """

    count: int
    stride: int | None = None
    rank: int = 0
    lane: bool = False

    @property
    def is_step(self) -> bool:
        """Whether a thread's loop counts it."""
        return self.stride is None and not self.lane


AxisDigits: TypeAlias = tuple[Digit, ...]
"""The digits of one axis, the least significant first."""


def extent_of(axis: AxisDigits) -> int:
    """How many indices the digits number.

    >>> extent_of((Digit(8, stride=4), Digit(2), Digit(4, stride=32)))
    64
    """
    return prod(digit.count for digit in axis)


def are_alike(one: AxisDigits, other: AxisDigits) -> bool:
    """Whether two axes are dealt alike: digits of one value say nothing.

    >>> are_alike((Digit(8, stride=4), Digit(1, stride=32)), (Digit(8, stride=4),))
    True
    """
    first, second = (tuple(digit for digit in axis if digit.count > 1) for axis in (one, other))
    return first == second


@dataclass(frozen=True)
class DigitMapping:
    """The iterations of a nest, or the elements of a tile, over the threads of a block, digit by digit.

    `threads` is the block; threads beyond `used` have no work. Only the last axis may have a lane digit, and that is
    its least significant one.
    """

    axes: tuple[AxisDigits, ...]
    used: int
    threads: int

    def __post_init__(self) -> None:
        for position, axis in enumerate(self.axes):
            for place, digit in enumerate(axis):
                if digit.lane and (place or position != len(self.axes) - 1):
                    raise ValueError("lanes are the least significant digit of the last axis")

    @property
    def vector(self) -> int:
        """Iterations of a unit."""
        last = self.axes[-1] if self.axes else ()
        return last[0].count if last and last[0].lane else 1

    @property
    def head(self) -> ir.Var | None:
        """Units begin where the nest does."""
        return None

    @property
    def edge_steps(self) -> int:
        """No iteration is outside of the units."""
        return 0

    def edge(self, thread: ir.Expr, step: ir.Expr) -> ir.Expr:
        """Not to be asked: there are no edges."""
        raise ValueError("this mapping has no edges")

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the mapped axes."""
        return tuple(extent_of(axis) for axis in self.axes)

    @property
    def steps(self) -> tuple[int, ...]:
        """One loop an axis, over all of its register digits."""
        return tuple(prod(digit.count for digit in axis if digit.is_step) for axis in self.axes)

    def indices(self, thread: ir.Expr, step: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Axis by axis, the digits put together."""
        return [self._index(axis, thread, step[position]) for position, axis in enumerate(self.axes)]

    def _index(self, axis: AxisDigits, thread: ir.Expr, step: ir.Expr) -> ir.Expr:
        total: ir.Expr = _int32(0)
        weight = inner = 1
        for digit in axis:
            if digit.stride is not None:
                total = total + _digit(thread, digit.stride, digit.count, self.threads) * weight
            elif digit.is_step:
                total = total + _digit(step, inner, digit.count, self._steps_of(axis)) * weight
                inner *= digit.count
            weight *= digit.count
        return total

    @staticmethod
    def _steps_of(axis: AxisDigits) -> int:
        return prod(digit.count for digit in axis if digit.is_step)

    def guards(
        self, thread: ir.Expr, step: Sequence[ir.Expr], index: Sequence[ir.Expr], first: Lane, last: Lane
    ) -> list[ir.Expr]:
        """One comparison where the block has spare threads: digits number their axis exactly."""
        return [E.LT(thread, _int32(self.used))] if self.used < self.threads else []

    def register(self, step: Sequence[ir.Expr], lane: ir.Expr | int) -> Any:
        """Register digits by rank, the first fastest."""
        position: Any = 0
        for at, axis in enumerate(self.axes):
            inner = 1
            for digit, weight in zip(axis, self._weights[at], strict=True):
                if digit.lane:
                    position = position + lane * weight
                elif digit.is_step:
                    position = position + _digit(step[at], inner, digit.count, self._steps_of(axis)) * weight
                    inner *= digit.count
        return position

    @property
    def _weights(self) -> list[list[int]]:
        """For each axis, the distance in registers between neighbours along each digit."""
        places = [
            (digit.rank, at, place)
            for at, axis in enumerate(self.axes)
            for place, digit in enumerate(axis)
            if digit.stride is None
        ]
        weights = [[0] * len(axis) for axis in self.axes]
        step = 1
        for _rank, at, place in sorted(places):
            weights[at][place] = step
            step *= self.axes[at][place].count
        return weights

    @property
    def registers(self) -> int:
        """All register digits together."""
        return prod(digit.count for axis in self.axes for digit in axis if digit.stride is None)

    def fragment(self) -> Fragment:
        """The tabulated form, without replicas along axes that the tile lacks."""

        def thread(index: Sequence[Any], _replica: Any) -> Any:
            return sum(value * digit.stride for digit, value, _ in self._digits(index) if digit.stride is not None)

        def register(index: Sequence[Any]) -> Any:
            return sum(value * weight for digit, value, weight in self._digits(index) if digit.stride is None)

        return Fragment.of(self.extents, thread, register)

    def _digits(self, index: Sequence[Any]) -> list[tuple[Digit, Any, int]]:
        """Every digit with its value at `index` and its weight among the registers."""
        found = []
        for at, axis in enumerate(self.axes):
            rest = index[at]
            for digit, weight in zip(axis, self._weights[at], strict=True):
                found.append((digit, rest % digit.count, weight))
                rest = rest // digit.count
        return found


def _digit(value: ir.Expr, stride: int, count: int, whole: int) -> ir.Expr:
    """`value // stride % count` for a value below `whole`."""
    if count == 1:
        return _int32(0)
    if isinstance(value, int):
        return _int32(value // stride % count)
    quotient = value if stride == 1 else tirx.floordiv(value, _int32(stride))
    return quotient if stride * count >= whole else tirx.floormod(quotient, _int32(count))


def _int32(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)
