"""Matrix instructions as data: shapes, dtypes, and which lane's register holds which element.

What an architecture has is a fact of `targets.yaml`. The layouts are those of the ISA guides' chapters on matrix
arithmetic and of AMD's matrix instruction calculator: a lane holds a row of A and a column of B for the same part of K,
so the order of K is free as long as both operands share it. Of D it holds a column.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from tile_core.dtypes import as_dtype
from tile_core.layouts.registers import COLUMNS, ROWS, Digit, FragmentLayout
from tile_core.targets import Capabilities

Family = Literal["mfma", "wmma", "wmma_gfx12"]

WAVE = {"mfma": 64, "wmma": 32, "wmma_gfx12": 32}
"""Lanes that carry an instruction out together."""
_TOTALS = ("float64", "float32", "int32")


@dataclass(frozen=True)
class MatrixInstruction:
    """D = A × B + D of one wave: A is m × k, B is k × n, all three in registers.

    `d`, `a` and `b` are dtypes. `mfma` is of CDNA, `wmma` of RDNA 3, whose halves of a wave hold the same operands, and
    `wmma_gfx12` of RDNA 4. With `flushes` subnormal operands, and sums, count as zeros.

    >>> one = MatrixInstruction("mfma", 16, 16, 16, "float32", "float16", "float16")
    >>> one.a_layout.place(row=3, column=6), one.d_layout.place(row=6, column=3)
    ((19, 2), (19, 2))
    """

    family: Family
    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    flushes: bool = False

    @property
    def name(self) -> str:
        """Shape and types, as in `f32_16x16x16_f16`."""
        operands = SHORT[self.a] if self.a == self.b else f"{SHORT[self.a]}_{SHORT[self.b]}"
        return f"{SHORT[self.d]}_{self.m}x{self.n}x{self.k}_{operands}"

    @property
    def dtypes(self) -> tuple[str, str, str]:
        """Those of A, B and D."""
        return self.a, self.b, self.d

    @property
    def wave(self) -> int:
        """Lanes."""
        return WAVE[self.family]

    @property
    def groups(self) -> int:
        """Groups of lanes that hold different parts of K."""
        return 1 if self.family == "wmma" else self.wave // self.m

    @property
    def packed(self) -> int:
        """Elements of a row of A, or of a column of B, that a lane holds."""
        return self.k // self.groups

    @property
    def run(self) -> int:
        """Neighbouring rows of a column of D that a lane holds."""
        if self.family == "wmma_gfx12":
            return 8
        return 1 if self.family == "wmma" or self.d == "float64" else 4

    @functools.cached_property
    def a_layout(self) -> FragmentLayout:
        """The registers of A."""
        return FragmentLayout(self.m, self.k, self._lanes(self.m, ROWS), _digits(Digit(self.packed, COLUMNS, 1)))

    @functools.cached_property
    def b_layout(self) -> FragmentLayout:
        """The registers of B."""
        return FragmentLayout(self.k, self.n, self._lanes(self.n, COLUMNS), _digits(Digit(self.packed, ROWS, 1)))

    def _lanes(self, count: int, outer: int) -> tuple[Digit, ...]:
        inner = COLUMNS if outer == ROWS else ROWS
        same = Digit(self.wave // (count * self.groups), outer, 0)
        return _digits(Digit(count, outer, 1), Digit(self.groups, inner, self.packed), same)

    @functools.cached_property
    def d_layout(self) -> FragmentLayout:
        """The registers of C and D."""
        blocks = self.wave // self.n
        step = blocks * self.run
        lanes = _digits(Digit(self.n, COLUMNS, 1), Digit(blocks, ROWS, self.run))
        registers = _digits(Digit(self.run, ROWS, 1), Digit(self.m // step, ROWS, step))
        return FragmentLayout(self.m, self.n, lanes, registers)


def _digits(*digits: Digit) -> tuple[Digit, ...]:
    return tuple(digit for digit in digits if digit.size > 1)


SHORT = {
    "float64": "f64",
    "float32": "f32",
    "tfloat32": "xf32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "bf8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "bf8",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
}
"""dtype to the name that AMD's manuals have for it."""


def instructions(capabilities: Capabilities) -> tuple[MatrixInstruction, ...]:
    """The instructions of an architecture that sum in 32 or 64 bits, of operands of whole bytes."""
    return _instructions(_key(capabilities.fact("matrix")), tuple(capabilities.fact("flushed_operands")))


def _key(listed: Iterable[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple((one["instruction"], *one["shape"], one["c"], one["a"], one["b"]) for one in listed)


@functools.cache
def _instructions(listed: tuple[tuple[Any, ...], ...], flushed: tuple[str, ...]) -> tuple[MatrixInstruction, ...]:
    return tuple(
        MatrixInstruction(family, m, n, k, d, a, b, flushes=a in flushed)
        for family, m, n, k, d, a, b in listed
        if d in _TOTALS and as_dtype(a).bits >= 8
    )
