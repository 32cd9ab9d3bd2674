"""`tile.gemm` on register-blocked micro-kernels.

| operands | computed as | where |
|---|---|---|
| float32, float64, int32, int64 | themselves | everywhere |
| bfloat16 | pairs, into float32 | with `bf16_dot`; with `bf16_tile` in matrix tiles |
| int8, uint8 | groups of four, into int32 | with `int8_dot`; with `int8_tile` in matrix tiles |
| other floats, other integers | float32, C's dtype | everywhere |

Operands that are not in the computed form are brought into it in a local tile first (`ops/matrices.py`); all others
are read where they are. Sums run in ascending k within one call, a group in the order of the instruction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir.regions import GLOBAL, constant
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall
from tile_core.ops.build import Cell, Tile, cast, int32, parallel, serial
from tile_core.ops.gemm import GEMM, sizes, transposed
from tile_cpu.llvm import amx
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.llvm.functions import Function, importing
from tile_cpu.llvm.gemm_kernels import Dot, Product
from tile_cpu.llvm.transpose import transpose_kernel
from tile_cpu.ops import matrices
from tile_cpu.ops.bounds import inside
from tile_cpu.ops.gemm_blocks import Blocks, Cut, Operands, Registers, cuts
from tile_cpu.ops.matrices import Matrix, Panels, Partial, RowTiles, Shifted
from tile_cpu.ops.prepared import DEPTH, INSIDE, PADDED, prepared

_COMPUTED = ("float32", "float64", "int32", "int64")
_DOTS = {("bfloat16", "float32"): "bf16", ("int8", "int32"): "s8", ("uint8", "int32"): "u8"}
_NEON_BYTES = 16
# Turns an int8 into a uint8 that is 128 more, or a uint8 into an int8 that is 128 less. The sums of products then lack
# the same number of times the sum of B's column.
_FLIP = {"s8": -128, "u8": 128}


def lower(call: OpCall, context: LowerContext) -> S.Stmt:
    """Lower `tile.gemm`; what has no micro-kernel takes the portable loops."""
    facts = facts_of(context.capabilities)
    product = choose(call, facts)
    if product is None:
        assert GEMM.lower is not None
        return GEMM.lower(call, context)
    if product.dot is None:
        return _Plain(call, facts, product).lower()
    return _Grouped(call, facts, product, product.dot).lower()


def choose(call: OpCall, facts: CpuFacts) -> Product | None:
    """How to multiply; `None` where no micro-kernel has the dtypes, or there is nothing to sum."""
    if sizes(call)[2] == 0:
        return None
    a, b, c = (Tile(call.region(side)).dtype for side in "abc")
    total = "float64" if "float64" in (a, b, c) else "float32" if c.is_float else str(c)
    if total not in _COMPUTED:
        return None
    clear = constant(call.args["clear_accum"]) == 1
    kind = _DOTS.get((str(a), total)) if a == b else None
    if kind and (facts.bf16_dot if kind == "bf16" else facts.int8_dot):
        return Product(total, f"{kind}_neon" if facts.vector_bytes == _NEON_BYTES else kind, clear)
    return Product(total, "fma" if c.is_float and facts.fma else "mul", clear)


def in_matrix_tiles(call: OpCall, facts: CpuFacts) -> bool:
    """Whether the product is one of whole matrix tiles, on a CPU that has them."""
    product = choose(call, facts)
    if product is None or product.dot is None:
        return False
    rows, columns, depth = sizes(call)
    available = facts.bf16_tile if product.kind == "bf16" else facts.int8_tile
    return available and not (rows % amx.ROWS or columns % amx.COLUMNS or depth % (product.dot.group * amx.ROWS))


def registers(facts: CpuFacts, product: Product) -> Registers:
    """The registers for the accumulators, a row of B and an element of A."""
    return Registers(facts.vector_registers, facts.lanes(8 * product.align), 4 if facts.vector_registers >= 32 else 2)


_M = TypeVar("_M", Matrix, Panels, RowTiles)
_Tiled = tuple[RowTiles, Panels, Matrix]


class _Plain:
    """Element by element, in the dtype of the sums."""

    def __init__(self, call: OpCall, facts: CpuFacts, product: Product) -> None:
        self._call = call
        self._facts = facts
        self._product = product
        self._rows, self._columns, self._depth = sizes(call)
        self._padded = PADDED in call.attrs
        self._valid: ir.Expr = call.attrs.get(DEPTH, int32(self._depth))
        self._lanes = facts.lanes(32)
        self._width = registers(facts, product).columns
        self._functions: list[Function] = []
        self._before: list[S.Stmt] = []
        self._after: list[S.Stmt] = []

    def lower(self) -> S.Stmt:
        """The statements of the call."""
        c = self._sums()
        clear = self._call.args["clear_accum"]
        if constant(clear) is None:
            zeros = matrices.fill(c, self._rows, self._columns)
            self._before.append(S.IfThenElse(clear, zeros, None, self._call.span))
        body = self._multiply(c)
        steps = sequence([*self._before, body, *self._after], self._call.span)
        return importing(self._functions, steps, self._call.span)

    def _multiply(self, c: Matrix) -> S.Stmt:
        return self._blocks(Operands(self._left(), self._right(), c), self._columns, 1)

    def _blocks(self, operands: Operands, columns: int, group: int) -> S.Stmt:
        best = registers(self._facts, self._product)
        return Blocks(operands, self._product, best, self._rows, self._in_steps(group)).cover(columns, self._functions)

    def _in_steps(self, group: int) -> ir.Expr:
        """How many steps of `group` elements along K count, as int64."""
        return cast(tirx.floordiv(self._valid + (group - 1), int32(group)), as_dtype("int64"))

    def _in_place(self, side: str) -> bool:
        """Whether an operand may be accessed by address: it lies within its tensor or tile."""
        return side in str(self._call.attrs.get(INSIDE, "")) or inside(self._call.region(side)) is None

    def _source(self, side: str) -> Matrix:
        return Matrix(Tile(self._call.region(side)), side != "c" and transposed(self._call, side))

    def _new(self, rows: int, columns: int, dtype: str, name: str) -> Matrix:
        made = matrices.local(rows, columns, dtype, name)
        self._before.append(matrices.allocation(made))
        return made

    def _prepared(self, made: _M, *steps: S.Stmt) -> _M:
        """`made`, filled by `steps`, which depend on nothing but an operand."""
        self._before += [matrices.allocation(made), prepared(made.tile.buffer, sequence(list(steps), self._call.span))]
        return made

    def _sums(self) -> Matrix:
        """C in the dtype of the sums; another dtype is converted back afterwards."""
        c = self._source("c")
        if c.dtype == self._product.dtype and c.contiguous_rows and self._in_place("c"):
            return c
        sums = self._new(self._rows, self._columns, self._product.dtype, f"{c.tile.name}_{self._product.dtype}")
        if not self._product.clear:
            self._before.append(matrices.convert(c, sums, self._rows, self._columns))
        self._after.append(matrices.convert(sums, c, self._rows, self._columns))
        return sums

    def _left(self) -> Matrix:
        a = self._source("a")
        same = a.dtype == self._product.dtype
        if same and not self._padded and self._in_place("a"):
            return a
        if same and self._padded and a.contiguous_rows and not a.swapped:
            height = min(self._rows, Registers.MOST_ROWS)
            edge = self._new(height, self._depth, a.dtype.tvm, f"{a.tile.name}_edge")
            return Partial(a.tile, edge=edge, depth=self._valid)
        return self._prepared(*self._copied(a, self._rows, self._depth))

    def _right(self) -> Matrix:
        """B with contiguous rows; from a tensor, whose rows may fall on each other in the cache, in panels."""
        b = self._source("b")
        name, dtype = b.tile.name, self._product.dtype
        if not b.contiguous_rows:
            turned = matrices.local(self._depth, self._columns, dtype, f"{name}_rows")
            steps: list[S.Stmt] = []
            if b.dtype != dtype:
                b, copy = self._copied(b, self._depth, self._columns)
                steps = [matrices.allocation(b), copy]
            return self._prepared(turned, *steps, *self._transposed(b, turned))
        if b.tile.scope != GLOBAL and b.dtype == dtype and self._in_place("b"):
            return b
        packed = matrices.panels(self._depth, self._columns, self._width, dtype, f"{name}_panels")
        return self._prepared(packed, matrices.pack_panels(b, packed, self._columns))

    def _copied(self, source: Matrix, rows: int, columns: int) -> tuple[Matrix, S.Stmt]:
        """A new matrix for `source` in the dtype of the sums, stored in the same orientation, and the copy into it."""
        shape = (columns, rows) if source.swapped else (rows, columns)
        made = matrices.local(*shape, self._product.dtype, f"{source.tile.name}_{self._product.dtype}")
        copy = matrices.convert(replace(source, swapped=False), made, *shape)
        return replace(made, swapped=source.swapped), copy

    def _transposed(self, b: Matrix, target: Matrix) -> list[S.Stmt]:
        """Fill `target` from a B whose columns are contiguous: whole blocks in registers, edges one by one."""
        rows, columns, lanes = range(self._depth), range(self._columns), self._lanes
        whole = (len(rows) - len(rows) % lanes, len(columns) - len(columns) % lanes)
        one_by_one = matrices.copy_window(b, target, rows, columns)
        if target.dtype.bits != 32 or constant(b.strides[0]) != 1 or 0 in whole or lanes < 4:
            return [one_by_one]
        steps = [self._turn(b, target, *whole, 1)]
        if whole[1] < len(columns):
            steps.append(matrices.copy_window(b, target, rows[: whole[0]], columns[whole[1] :]))
        if whole[0] < len(rows):
            steps.append(matrices.copy_window(b, target, rows[whole[0] :], columns))
        return [self._within(b, sequence(steps), one_by_one)]

    def _within(self, matrix: Matrix, fast: S.Stmt, guarded: S.Stmt) -> S.Stmt:
        """`fast`, which accesses `matrix` by address, or, where its region reaches beyond its memory, `guarded`."""
        condition = inside(matrix.tile.region)
        return fast if condition is None else S.IfThenElse(condition, fast, guarded, self._call.span)

    def _turn(self, source: Matrix, target: Matrix, rows: int, columns: int, group: int) -> S.Stmt:
        """Transpose 32-bit elements, which are `group` elements of `source`; `rows` and `columns` are whole blocks."""
        kernel = transpose_kernel(self._lanes)
        stride = tirx.floordiv(source.strides[1], tirx.IntImm("int64", group))

        def block(row: ir.Expr, column: ir.Expr) -> S.Stmt:
            from_, to = source.address(row * group, column), target.address(row, column)
            return kernel.call(from_, stride, to, target.strides[0])

        down, across = (Cut(0, extent // self._lanes, self._lanes) for extent in (rows, columns))
        blocks = across.each(lambda column: down.each(lambda row: block(row, column)))
        return importing([kernel], blocks, self._call.span)


class _Grouped(_Plain):
    """Groups of narrow elements, in dot products or matrix tiles."""

    def __init__(self, call: OpCall, facts: CpuFacts, product: Product, dot: Dot) -> None:
        super().__init__(call, facts, product)
        self._dot = dot
        self._steps = -(-self._depth // dot.group)

    def _multiply(self, c: Matrix) -> S.Stmt:
        if in_matrix_tiles(self._call, self._facts):
            return self._tiles(self._tiles_of_a(), self._groups_of_b(2 * amx.COLUMNS), c)
        flip = _FLIP.get(self._product.kind, 0)
        bias = self._correction(flip) if flip else None
        self._product = replace(self._product, bias=bias is not None)
        operands = Operands(self._groups_of_a(flip), self._groups_of_b(self._width), c, bias)
        main = self._columns - self._columns % self._lanes
        parts = [self._blocks(operands, main, self._dot.group)] if main else []
        if main < self._columns:
            parts += self._last_columns(operands, main)
        return sequence(parts, self._call.span)

    def _tiles_of_a(self) -> RowTiles:
        """A as matrix tiles are loaded: where it is if it is a tile, one after the other if it is a tensor."""
        a = self._source("a")
        if a.tile.scope != GLOBAL and a.contiguous_rows and self._in_groups(a.strides[0]) and self._in_place("a"):
            return matrices.rows_in_place(a, self._dot.group)
        packed = matrices.row_tiles(self._rows, self._depth, a.dtype.tvm, self._dot.group, f"{a.tile.name}_tiles")
        return self._prepared(packed, matrices.pack_tiles(a, packed))

    def _groups_of_a(self, flip: int) -> Matrix:
        """A with whole groups in each row and `flip` xored to its elements."""
        a = self._source("a")
        width = self._steps * self._dot.group
        whole = a.contiguous_rows and width == self._depth and self._in_groups(a.strides[0])
        if whole and not flip and not self._padded and self._in_place("a"):
            return a
        padded = matrices.local(self._rows, width, a.dtype.tvm, f"{a.tile.name}_groups")
        return self._prepared(padded, matrices.pad_columns(a, padded, self._rows, self._depth, flip=flip))

    def _groups_of_b(self, width: int) -> Panels:
        """B in panels, the groups along K in one uint32."""
        b, group = self._source("b"), self._dot.group
        packed = matrices.panels(self._steps, self._columns, width, "uint32", f"{b.tile.name}_groups")
        gathered = matrices.pack_groups(b, packed, self._depth, self._columns, group)
        # The groups of a B that is stored transposed are neighbours in memory.
        ready = constant(b.strides[0]) == 1 and self._in_groups(b.strides[1]) and self._depth % group == 0
        if not ready or self._steps % self._lanes or self._columns % self._lanes:
            return self._prepared(packed, gathered)
        turned = self._turn(b, packed, self._steps, self._columns, group)
        return self._prepared(packed, self._within(b, turned, gathered))

    def _in_groups(self, stride: ir.Expr) -> bool:
        known = constant(stride)
        return known is not None and known % self._dot.group == 0

    def _correction(self, factor: int) -> Matrix:
        """`factor` times the sum of every column of B: what flipping the sign bits of A took from C.

        Blocks share the sums over the whole depth; where fewer steps count, the sums are of those alone.
        """
        source = self._source("b")
        width = -(-self._columns // self._lanes) * self._lanes
        name = f"{source.tile.name}_sums"
        total = matrices.local(1, width, "int32", name)
        total = self._prepared(total, self._column_sums(source, total, int32(self._depth), factor))
        if DEPTH not in self._call.attrs:
            return total
        group = self._dot.group
        counted = tirx.floordiv(self._valid + (group - 1), int32(group)) * int32(group)
        bias = self._new(1, width, "int32", f"{name}_counted")
        copied = matrices.convert(total, bias, 1, self._columns)
        summed = self._column_sums(source, bias, counted, factor)
        self._before.append(S.IfThenElse(counted < int32(self._depth), summed, copied, self._call.span))
        return bias

    def _column_sums(self, source: Matrix, sums: Matrix, depth: ir.Expr, factor: int) -> S.Stmt:
        """Set `sums` to `factor` times the sum of the first `depth` elements of every column of `source`."""

        def column(index: list[ir.Expr]) -> S.Stmt:
            (n,) = index
            total = Cell.new("total", sums.dtype)

            def step(k: ir.Expr) -> S.Stmt:
                return total.set(tirx.Add(total.get(), tirx.Cast("int32", source.load(k, n))))

            scaled = tirx.Mul(total.get(), int32(factor))
            return sequence(
                [total.declare(), total.set(int32(0)), serial(depth, step), sums.store(scaled, int32(0), n)]
            )

        return parallel([int32(self._columns)], column)

    def _last_columns(self, operands: Operands, first: int) -> list[S.Stmt]:
        """The columns that do not fill a vector, in a copy of that part of C that does."""
        count = self._columns - first
        edge = self._new(self._rows, self._lanes, self._product.dtype, f"{operands.c.tile.name}_edge")
        c, b = Shifted(operands.c.tile, first=first), Panels(operands.b.tile, width=self._width, first=first)
        bias = None if operands.bias is None else Shifted(operands.bias.tile, first=first)
        into = [] if self._product.clear else [matrices.convert(c, edge, self._rows, count)]
        calls = self._blocks(Operands(operands.a, b, edge, bias), self._lanes, self._dot.group)
        return [*into, calls, matrices.convert(edge, c, self._rows, count)]

    def _tiles(self, a: RowTiles, b: Panels, c: Matrix) -> S.Stmt:
        """Matrix tiles, two by two where they go; two rows of tiles of A stay in the cache while all of B passes by."""
        configure, release = amx.configure(), amx.release()
        self._functions += [configure, release]
        strips = [
            down.each(partial(self._tile_strip, (a, b, c), down.size)) for down in cuts(self._rows // amx.ROWS, 2)
        ]
        return sequence([configure.call(), *strips, release.call()], self._call.span)

    def _tile_strip(self, operands: _Tiled, height: int, row: ir.Expr) -> S.Stmt:
        panels = cuts(self._columns // amx.COLUMNS, 2)
        return sequence([across.each(partial(self._tile, operands, (height, across.size), row)) for across in panels])

    def _tile(self, operands: _Tiled, shape: tuple[int, int], row: ir.Expr, column: ir.Expr) -> S.Stmt:
        a, b, c = operands
        kernel = amx.gemm_kernel(*shape, self._product.kind, clear=self._product.clear)
        self._functions.append(kernel)
        at_row, at_column = row * amx.ROWS, column * amx.COLUMNS
        return kernel.call(
            a.tile_address(row),
            *(step * self._dot.element_bytes for step in (a.row, a.tile_row, a.tile_column)),
            b.address(int32(0), at_column),
            b.strides[0] * 4,
            c.address(at_row, at_column),
            c.strides[0] * 4,
            self._in_steps(self._dot.group * amx.ROWS),
        )
