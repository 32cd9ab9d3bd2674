"""Which lane's register holds which element of a matrix, digit by digit, as the tables of instructions say it.

A layout is a list of digits. The number of a lane, and that of a register of the lane, is read in mixed radix, fastest
digit first, and every digit moves the element along one axis. So a layout can be tabulated, inverted and turned into an
expression, and that it names each element of the matrix once is proved when it is made. A register here is one element,
in the order in which elements are packed into 32-bit registers: the first is in the low bits.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod

from tvm import ir, tirx

from tile_core.layouts import digits as mapped

ROWS, COLUMNS = 0, 1


@dataclass(frozen=True)
class Digit:
    """A digit of a lane's or register's number: each step moves the element by `stride` along `axis`.

    A digit of a lane with stride 0 counts lanes that hold the same elements.
    """

    size: int
    axis: int
    stride: int


@dataclass(frozen=True)
class FragmentLayout:
    """Where the elements of a `rows` × `columns` matrix are: `registers` of each of `lanes` threads.

    Raises:
        ValueError: the digits do not name every element exactly once.

    >>> lanes = (Digit(4, COLUMNS, 2), Digit(8, ROWS, 1))
    >>> c = FragmentLayout(16, 8, lanes, (Digit(2, COLUMNS, 1), Digit(2, ROWS, 8)))
    >>> c.element(lane=5, register=2)
    (9, 2)
    >>> c.place(9, 2)
    (5, 2)
    """

    rows: int
    columns: int
    lane_digits: tuple[Digit, ...]
    register_digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        # One digit moves one axis, and along each axis strides are the products of the smaller digits: a mixed radix.
        for axis, extent in ((ROWS, self.rows), (COLUMNS, self.columns)):
            reached = 1
            for digit in self._along(axis):
                if digit.stride != reached:
                    raise ValueError(f"{self}: a digit of axis {axis} has stride {digit.stride}, expected {reached}")
                reached *= digit.size
            if reached != extent:
                raise ValueError(f"{self}: the digits of axis {axis} name {reached} of {extent}")

    def _along(self, axis: int) -> list[Digit]:
        lanes = [digit for digit in self.lane_digits if digit.stride]
        digits = [digit for digit in (*lanes, *self.register_digits) if digit.axis == axis]
        return sorted(digits, key=lambda digit: digit.stride)

    @functools.cached_property
    def lanes(self) -> int:
        """The number of threads."""
        return prod(digit.size for digit in self.lane_digits)

    @functools.cached_property
    def registers(self) -> int:
        """The number of elements of one thread."""
        return prod(digit.size for digit in self.register_digits)

    def element(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of a register of a lane."""
        found = [0, 0]
        for number, digits in ((lane, self.lane_digits), (register, self.register_digits)):
            for digit in digits:
                found[digit.axis] += number % digit.size * digit.stride
                number //= digit.size
        return found[ROWS], found[COLUMNS]

    def place(self, row: int, column: int) -> tuple[int, int]:
        """Lane and register of an element; of lanes that hold the same, the first."""
        at = (row, column)
        lane, register = (
            _number([at[digit.axis] // digit.stride % digit.size if digit.stride else 0 for digit in digits], digits)
            for digits in (self.lane_digits, self.register_digits)
        )
        return lane, register


def _number(values: list[int], digits: tuple[Digit, ...]) -> int:
    number = 0
    for value, digit in zip(reversed(values), reversed(digits), strict=True):
        number = number * digit.size + value
    return number


def coordinates(digits: tuple[Digit, ...], number: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Row and column that the number of a lane, or of a register, stands for."""
    found: list[ir.Expr] = [_int32(0), _int32(0)]
    weight = 1
    for digit in digits:
        own = tirx.floormod(tirx.floordiv(number, _int32(weight)), _int32(digit.size))
        found[digit.axis] = found[digit.axis] + own * digit.stride
        weight *= digit.size
    return found[0], found[1]


def axis_digits(layout: FragmentLayout, axis: int, *, rank: int = 0) -> mapped.AxisDigits:
    """The digits of an axis of a matrix as mappings of tiles have them.

    Register digits are ranked from `rank` on in the order of the register's number.

    >>> layout = FragmentLayout(8, 8, (Digit(8, ROWS, 1), Digit(2, COLUMNS, 4)), (Digit(4, COLUMNS, 1),))
    >>> [digit.count for digit in axis_digits(layout, COLUMNS)]
    [4, 2]
    """
    found: list[tuple[int, mapped.Digit]] = []
    weight = 1
    for digit in layout.lane_digits:
        if digit.axis == axis and digit.stride:
            found.append((digit.stride, mapped.Digit(digit.size, stride=weight)))
        weight *= digit.size
    for place, digit in enumerate(layout.register_digits):
        if digit.axis == axis:
            found.append((digit.stride, mapped.Digit(digit.size, rank=rank + place)))
    return tuple(digit for _stride, digit in sorted(found, key=lambda one: one[0]))


def _int32(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)
