"""The statements of a product by waves: operands to registers, multiplications, and C where it is another dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.layouts.swizzle import UNIT_BYTES
from tile_core.ops.gemm import sizes
from tile_core.passes.matrix_operands import SharedMatrix
from tile_core.passes.matrix_products import sums_of, unrolled
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_rocm.instructions.matrix import matrix

if TYPE_CHECKING:
    from tile_rocm.matrix.product import WaveProduct


@dataclass(frozen=True)
class _Side:
    """An operand in registers: the array, elements of it for each piece, and what is done before.

    A piece is what one instruction reads of the rows of A, or of the columns of B, for a chunk of K, or for all of K.
    """

    array: ir.Var
    elements: int
    is_whole: bool
    declare: list[S.Stmt]
    load: list[S.Stmt]


class WaveIssue:
    """One product in one thread."""

    def __init__(self, product: WaveProduct, scope: ThreadScope) -> None:
        self._product, self._scope, self._span = product, scope, product.call.span
        self._instruction = product.instruction
        m, n, k = sizes(product.call)
        self._rows = m // (self._instruction.m * product.down)
        self._columns = n // (self._instruction.n * product.across)
        self._positions = k // self._instruction.groups
        self._chunk = max(product.run, self._instruction.packed)
        wave = self._instruction.wave
        number, lane = tirx.floordiv(scope.thread, int32(wave)), tirx.floormod(scope.thread, int32(wave))
        self._own = tirx.floormod(lane, int32(self._instruction.m))
        self._part = tirx.floordiv(lane, int32(self._instruction.m)) if self._instruction.groups > 1 else int32(0)
        self._down = tirx.floormod(number, int32(product.down))
        self._across = tirx.floormod(tirx.floordiv(number, int32(product.down)), int32(product.across))

    def result(self) -> S.Stmt:
        """The whole product."""
        chunk = tirx.Var("step", "int32")
        c = self._scope.registers[self._product.call.region("c").source].array
        count = self._rows * self._columns * self._instruction.d_layout.registers
        sums = sums_of(self._product.call, c, as_dtype(self._instruction.d), count)
        a, b = self._side("a", chunk), self._side("b", chunk)
        steps = [self._step(a, b, sums.array, chunk, at) for at in range(self._chunk // self._instruction.packed)]
        body = visit.sequence([*a.load, *b.load, *steps], self._span)
        loop = S.For(chunk, int32(0), int32(self._positions // self._chunk), S.ForKind.UNROLLED, body, span=self._span)
        return phase(visit.sequence([*sums.before, *a.declare, *b.declare, loop, *sums.after], self._span))

    def _step(self, a: _Side, b: _Side, sums: ir.Var, chunk: ir.Expr, step: int) -> S.Stmt:
        """One instruction's depth: every piece of A times every piece of B."""
        product, instruction = self._product, self._instruction
        registers, spread = instruction.d_layout.registers, product.spread_b

        def address(side: _Side, piece: ir.Expr) -> ir.Expr:
            at = piece * side.elements + step * instruction.packed
            return _address(side.array, at + chunk * self._chunk if side.is_whole else at)

        def row(i: ir.Expr) -> S.Stmt:
            def column(j: ir.Expr) -> S.Stmt:
                group, own = tirx.floordiv(j, int32(spread)), tirx.floormod(j, int32(spread))
                first = (i * (self._columns // spread) + group) * (registers * spread) + own
                operands = [address(a, i), address(b, j)]
                if product.is_turned:
                    operands.reverse()
                call = matrix(_address(sums, first), *operands, instruction=instruction, stride=spread)
                return S.Evaluate(call, self._span)

            return self._unrolled(self._columns, column)

        return self._unrolled(self._rows, row)

    # -- operands --------------------------------------------------------------------------------------------------

    def _side(self, side: str, chunk: ir.Expr) -> _Side:
        operand = self._product.a if side == "a" else self._product.b
        source = self._product.call.region(side).source
        if operand is None:
            return _Side(self._scope.registers[source].array, self._positions, True, [], [])
        pieces = self._rows if side == "a" else self._columns
        array = self._array(side, source, pieces * self._chunk)
        load = self._runs if operand.depth_is_contiguous else self._spread
        return _Side(
            array, self._chunk, False, [S.AllocBuffer(array, span=self._span)], [load(side, operand, array, chunk)]
        )

    def _runs(self, side: str, operand: SharedMatrix, array: ir.Var, chunk: ir.Expr) -> S.Stmt:
        """Rows along K: a run of a lane in as many vectors as it takes."""
        width = self._width(operand, self._product.run)
        pieces = self._rows if side == "a" else self._columns

        def piece(at: ir.Expr) -> S.Stmt:
            def vector(number: ir.Expr) -> S.Stmt:
                position = number * width
                value = operand.element(self._outer(side, at), self._depth(chunk, position), width)
                return S.BufferStore(array, value, [_several(at * self._chunk + position, width)], self._span)

            return self._unrolled(self._chunk // width, vector)

        return self._unrolled(pieces, piece)

    def _spread(self, side: str, operand: SharedMatrix, array: ir.Var, chunk: ir.Expr) -> S.Stmt:
        """Rows across K: for each position along K the lane's neighbours, which are those of as many pieces."""
        spread = self._product.spread_a if side == "a" else self._product.spread_b
        pieces = (self._rows if side == "a" else self._columns) // spread
        moved = self._array(side, operand.buffer, spread)

        def group(at: ir.Expr) -> S.Stmt:
            def position(number: ir.Expr) -> S.Stmt:
                vector = operand.element(self._outer(side, at), self._depth(chunk, number), spread)

                def deal(own: ir.Expr) -> S.Stmt:
                    value = tirx.BufferLoad(moved, [own])
                    return S.BufferStore(array, value, [(at * spread + own) * self._chunk + number], self._span)

                load = S.BufferStore(moved, vector, [_several(int32(0), spread)], self._span)
                alloc = S.AllocBuffer(moved, span=self._span)
                return visit.sequence([alloc, load, self._unrolled(spread, deal)], self._span)

            return self._unrolled(self._chunk, position)

        return self._unrolled(pieces, group)

    def _outer(self, side: str, group: ir.Expr) -> ir.Expr:
        """The row of A, or column of B, at which this lane begins in a group of pieces."""
        product, size = self._product, self._instruction.m
        if side == "a":
            return ((group * product.down + self._down) * size + self._own) * product.spread_a
        groups = self._columns // product.spread_b
        return ((self._across * groups + group) * size + self._own) * product.spread_b

    def _depth(self, chunk: ir.Expr, position: ir.Expr) -> ir.Expr:
        """The index along K of a lane's position in a chunk."""
        run = self._product.run
        number = chunk * self._chunk + position
        whole, rest = tirx.floordiv(number, int32(run)), tirx.floormod(number, int32(run))
        return whole * (run * self._instruction.groups) + self._part * run + rest

    def _width(self, operand: SharedMatrix, run: int) -> int:
        """Elements of a run that are loaded at once."""
        widest = min(run, UNIT_BYTES // operand.itemsize)
        return next(size for size in (16, 8, 4, 2, 1) if size <= widest and run % size == 0 and operand.has_runs(size))

    # -- statements ------------------------------------------------------------------------------------------------

    def _array(self, side: str, source: ir.Var, elements: int) -> ir.Var:
        dtype = str(source.dtype)
        return tirx.decl_buffer((elements,), dtype, f"{side}_part", scope=regions.LOCAL, data_alignment=UNIT_BYTES)

    def _unrolled(self, count: int, body: Callable[[ir.Expr], S.Stmt]) -> S.Stmt:
        return unrolled(count, body, self._span)


def _address(array: ir.Var, register: ir.Expr) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(array, [register]))


def _several(index: ir.Expr, count: int) -> ir.Expr:
    return index if count == 1 else E.Ramp(index, E.IntImm(index.ty, 1), count)
