"""How a block of C is cut into register tiles, and the calls of micro-kernels that cover it.

Panels of columns are the outer loop, so that a panel of B stays in the first-level cache while the rows pass by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.visit import sequence
from tile_core.ops.build import Tile, int32, serial
from tile_cpu.llvm.functions import Function
from tile_cpu.llvm.gemm_kernels import Block, Product, gemm_kernel
from tile_cpu.ops.gemm_prefetch import Prefetch
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


def cuts(total: int, size: int) -> Iterator[Cut]:
    """Cut `total` units into pieces of `size` and a shorter one for the rest."""
    whole = total - total % size
    if whole:
        yield Cut(0, whole // size, size)
    if total > whole:
        yield Cut(whole, 1, total - whole)


@dataclass(frozen=True)
class Blocks:
    """Calls that multiply `rows` rows over `depth` steps, with register tiles of at most `best`.

    The regions `coming` are fetched meanwhile.
    """

    operands: Operands
    product: Product
    best: Block
    rows: int
    depth: int
    coming: tuple[Tile, ...] = ()

    def cover(self, columns: int, functions: list[Function]) -> S.Stmt:
        """The calls for columns 0 to `columns`; what they need is added to `functions`."""
        down = -(-self.rows // self.best.rows)
        prefetch = Prefetch(self.coming, down * -(-columns // self.best.columns))

        def panel(cut: Cut, lanes: int) -> S.Stmt:
            return cut.each(partial(self._strips, Block(self.best.rows, cut.size // lanes, lanes), prefetch, functions))

        return sequence([panel(cut, lanes) for cut, lanes in _panels(columns, self.best)])

    def _strips(self, block: Block, prefetch: Prefetch, functions: list[Function], column: ir.Expr) -> S.Stmt:
        """All rows of the panel that begins at `column`."""
        down = -(-self.rows // self.best.rows)
        before = tirx.floordiv(column, self.best.columns) * down
        strips = []
        for strip in cuts(self.rows, block.rows):
            kernel = gemm_kernel(replace(block, rows=strip.size), self.product)
            functions.append(kernel)
            call = self._caller(kernel, column)

            def step(row: ir.Expr, call: Callable[[ir.Expr], S.Stmt] = call) -> S.Stmt:
                number = before + tirx.floordiv(row, self.best.rows)
                return sequence([*prefetch.part(number, functions), call(row)])

            strips.append(strip.each(step))
        return sequence(strips)

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
