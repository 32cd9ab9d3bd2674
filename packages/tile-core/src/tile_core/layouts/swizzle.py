"""Shared tiles in the order that matrix instructions read without bank conflicts.

The columns of a tile are cut into strips of `span` bytes, each strip stored whole before the next. Within a strip a row
is one span, and its 16-byte units are permuted by the row: bits 4 to 6 of the byte address are combined with bits 7 to
9 by exclusive or (128-byte span; 64 and 32 bytes use two bits and one). Any eight rows then lie in different banks.
Elements of 8 bytes are read one by one, four of a row and four rows at a time, which are two units of a row: there
the row counts twice, so that pairs of units of any four rows lie in different banks. No copy engine writes those.
Source: PTX ISA, "Shared memory layout and swizzling" of the asynchronous warpgroup instructions and tensor copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNIT_BYTES = 16
SPANS = (128, 64, 32)
WORD_PAIR = 8
"""Bytes of an element that takes two banks."""


@dataclass(frozen=True)
class SwizzledTile:
    """A row-major tile of `rows` × `columns` elements of `itemsize` bytes in strips of `span` bytes.

    `offset` is a bijection onto `range(rows * columns)`; it maps 16-byte units to 16-byte units.

    >>> tile = SwizzledTile(rows=16, columns=128, itemsize=2, span=128)
    >>> tile.offset(0, 0), tile.offset(1, 0), tile.offset(0, 64)
    (0, 72, 1024)
    """

    rows: int
    columns: int
    itemsize: int
    span: int

    def __post_init__(self) -> None:
        if self.span not in SPANS or self.columns * self.itemsize % self.span or UNIT_BYTES % self.itemsize:
            raise ValueError(f"rows of {self.columns} × {self.itemsize} bytes have no span of {self.span}")

    @property
    def strip(self) -> int:
        """Columns of a strip."""
        return self.span // self.itemsize

    @property
    def strips(self) -> int:
        """Strips of a tile."""
        return self.columns // self.strip

    @property
    def strip_bytes(self) -> int:
        """Bytes of a strip."""
        return self.rows * self.span

    def offset(self, row: Any, column: Any) -> Any:
        """The element offset of (`row`, `column`), for ints and for TVM expressions."""
        unit = UNIT_BYTES // self.itemsize
        strip, within = column // self.strip, column % self.strip
        phase = row // (128 // self.span) * (2 if self.itemsize == WORD_PAIR else 1) % (self.span // UNIT_BYTES)
        return strip * (self.rows * self.strip) + row * self.strip + (within // unit ^ phase) * unit + within % unit


def swizzled(rows: int, columns: int, itemsize: int) -> SwizzledTile | None:
    """The tile with the widest span that its rows allow; `None` where they allow none.

    >>> swizzled(128, 32, 2).span
    64
    """
    for span in SPANS:
        if itemsize in (1, 2, 4, 8) and columns * itemsize % span == 0 and rows % 8 == 0:
            return SwizzledTile(rows, columns, itemsize, span)
    return None
