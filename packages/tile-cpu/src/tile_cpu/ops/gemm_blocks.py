"""How a block of C is cut into register tiles, and the calls of micro-kernels that cover it.

Strips of rows are the outer loop: a strip of A stays in the first-level cache while the panels of B pass by, each read
from its beginning to its end, as the second-level cache prefetches best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.visit import sequence
from tile_core.ops.build import int32, serial
from tile_cpu.llvm.functions import Function
from tile_cpu.llvm.gemm_kernels import Block, Product, gemm_kernel
from tile_cpu.ops.matrices import Matrix, Strip


@dataclass(frozen=True)
class Operands:
    """A, B and C as a micro-kernel reads them, and the row vector that it adds, if any."""

    a: Matrix
    b: Matrix
    c: Matrix
    bias: Matrix | None = None


@dataclass(frozen=True)
class Registers:
    """The vector registers that a micro-kernel may fill: `count` of `lanes` elements, in tiles `vectors` wide."""

    count: int
    lanes: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns of the widest register tile."""
        return self.vectors * self.lanes

    def rows(self, vectors: int) -> int:
        """The most rows of a tile `vectors` wide: a row of B and an element of A need registers too."""
        return min(self.MOST_ROWS, (self.count - vectors - 1) // vectors)

    MOST_ROWS: ClassVar[int] = 14
    """Rows of A have an address each, which need registers of their own."""


@dataclass(frozen=True)
class Cut:
    """`count` pieces of `size` units, from unit `first` on."""

    first: int
    count: int
    size: int

    def each(self, body: Callable[[ir.Expr], S.Stmt]) -> S.Stmt:
        """`body` for the first unit of every piece."""
        if self.count == 1:
            return body(int32(self.first))
        return serial(int32(self.count), lambda i: body(i * self.size + self.first), "tile")


def cuts(total: int, most: int) -> Iterator[Cut]:
    """Cut `total` units into as few pieces of at most `most` as possible, as equal as possible."""
    pieces = -(-total // most)
    size, larger = divmod(total, pieces)
    if larger:
        yield Cut(0, larger, size + 1)
    yield Cut(larger * (size + 1), pieces - larger, size)


@dataclass(frozen=True)
class Blocks:
    """Calls that multiply `rows` rows over `depth` steps, with register tiles of at most `best`."""

    operands: Operands
    product: Product
    best: Registers
    rows: int
    depth: ir.Expr

    def cover(self, columns: int, functions: list[Function]) -> S.Stmt:
        """The calls for columns 0 to `columns`; what they need is added to `functions`."""
        return sequence([self._panels(each, functions) for each in _panels(columns, self.best)])

    def _panels(self, panels: _Panels, functions: list[Function]) -> S.Stmt:
        strips = []
        for strip in cuts(self.rows, panels.rows):
            kernel = gemm_kernel(Block(strip.size, panels.cut.size // panels.lanes, panels.lanes), self.product)
            functions.append(kernel)
            strips.append(strip.each(partial(self._strip, kernel, panels.cut, strip.size)))
        return sequence(strips)

    def _strip(self, kernel: Function, cut: Cut, height: int, row: ir.Expr) -> S.Stmt:
        strip = self.operands.a.strip(row, height)
        return sequence([*strip.before, cut.each(partial(self._call, kernel, strip, row))])

    def _call(self, kernel: Function, strip: Strip, row: ir.Expr, column: ir.Expr) -> S.Stmt:
        b, c, bias = self.operands.b, self.operands.c, self.operands.bias
        zero, dot = int32(0), self.product.dot
        place = c.address(row, column)
        return kernel.call(
            strip.address,
            strip.row_stride if dot is None else tirx.floordiv(strip.row_stride, tirx.IntImm("int64", dot.group)),
            strip.column_stride if dot is None else 1,
            b.address(zero, column),
            b.strides[0],
            place,
            c.strides[0],
            place if bias is None else bias.address(zero, column),
            self.depth,
        )


@dataclass(frozen=True)
class _Panels:
    """Panels of equal width: where they lie, the lanes of their vectors, the most rows of a register tile."""

    cut: Cut
    lanes: int
    rows: int


def _panels(columns: int, best: Registers) -> Iterator[_Panels]:
    """Cut the columns into panels as wide as the widest register tile, then into narrower ones."""
    at, lanes = 0, best.lanes
    if columns >= best.columns:
        at = columns - columns % best.columns
        yield _Panels(Cut(0, at // best.columns, best.columns), lanes, best.rows(best.vectors))
    while at < columns:
        vectors = (columns - at) // lanes
        if vectors:
            yield _Panels(Cut(at, 1, vectors * lanes), lanes, best.rows(vectors))
        at, lanes = at + vectors * lanes, lanes // 2
