"""How a block of C is cut into register tiles, and the calls of micro-kernels that cover it.

Panels of columns are the outer loop, so that a panel of B stays in the first-level cache while the rows pass by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.visit import sequence
from tile_core.ops.build import int32, serial
from tile_cpu.llvm.functions import Function
from tile_cpu.llvm.gemm_kernels import Block, Product, gemm_kernel
from tile_cpu.ops.matrices import Matrix


@dataclass(frozen=True)
class Operands:
    """A, B and C as a micro-kernel reads them, and the row vector that it adds, if any."""

    a: Matrix
    b: Matrix
    c: Matrix
    bias: Matrix | None = None


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
    best: Block
    rows: int
    depth: int

    def cover(self, columns: int, functions: list[Function]) -> S.Stmt:
        """The calls for columns 0 to `columns`; what they need is added to `functions`."""
        return sequence([self._panel(cut, lanes, functions) for cut, lanes in _panels(columns, self.best)])

    def _panel(self, cut: Cut, lanes: int, functions: list[Function]) -> S.Stmt:
        def at_column(column: ir.Expr) -> S.Stmt:
            strips = []
            for strip in cuts(self.rows, self.best.rows):
                kernel = gemm_kernel(Block(strip.size, cut.size // lanes, lanes), self.product)
                functions.append(kernel)
                strips.append(strip.each(self._caller(kernel, column)))
            return sequence(strips)

        return cut.each(at_column)

    def _caller(self, kernel: Function, column: ir.Expr) -> Callable[[ir.Expr], S.Stmt]:
        a, b, c, bias = self.operands.a, self.operands.b, self.operands.c, self.operands.bias
        zero, dot = int32(0), self.product.dot

        def call(row: ir.Expr) -> S.Stmt:
            place = c.address(row, column)
            return kernel.call(
                a.address(row, zero),
                a.strides[0] if dot is None else tirx.floordiv(a.strides[0], tirx.IntImm("int64", dot.group)),
                a.strides[1] if dot is None else 1,
                b.address(zero, column),
                b.strides[0],
                place,
                c.strides[0],
                place if bias is None else bias.address(zero, column),
                self.depth,
            )

        return call


def _panels(columns: int, best: Block) -> Iterator[tuple[Cut, int]]:
    """Cut the columns into panels as wide as `best`, then into narrower vectors; each with its lanes."""
    at, lanes = 0, best.lanes
    if columns >= best.columns:
        at = columns - columns % best.columns
        yield Cut(0, at // best.columns, best.columns), lanes
    while at < columns:
        width = (columns - at) // lanes * lanes
        if width:
            yield Cut(at, 1, width), lanes
        at, lanes = at + width, lanes // 2
