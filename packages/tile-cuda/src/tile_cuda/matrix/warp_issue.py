"""The statements of a product by warps: operands to registers, multiplications, and C where it is another dtype.

Shared operands come by `ldmatrix`, whose 8 × 8 matrices of 16-bit elements are 8 rows of 16 bytes of any dtype, from
swizzled tiles without bank conflicts; 16-bit operands that are stored the other way round are transposed on the way.
Others are read element by element, and where B holds runs along K, A in vectors of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.layouts.registers import Digit, coordinates
from tile_core.layouts.swizzle import UNIT_BYTES
from tile_core.ops.gemm import in_units
from tile_core.ops.gemm_scaled import FACTORS, GEMM_SCALED, IN_A_WORD, granularity
from tile_core.passes.matrix_products import sums_of, unrolled
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.ldmatrix import ldmatrix
from tile_cuda.instructions.mma import mma, mma_sp, round_tf32
from tile_cuda.instructions.mma_scaled import OF_BYTES, find, mma_scaled
from tile_cuda.matrix.operands import SharedMatrix, reading
from tile_cuda.matrix.places import places
from tile_cuda.matrix.product import sizes
from tile_cuda.matrix.warp import COLUMNS, QUAD, WARP

if TYPE_CHECKING:
    from tile_cuda.matrix.mma import WarpProduct

MOST_MATRICES = 4
ROWS = 8
"""Rows of a matrix of `ldmatrix`."""


class WarpIssue:
    """One product in one thread."""

    def __init__(self, product: WarpProduct, scope: ThreadScope) -> None:
        self._product, self._scope, self._span = product, scope, product.call.span
        self._instruction = product.instruction
        m, n, k = sizes(product.call)
        self._down = m // (self._instruction.m * product.down)
        self._across = n // (COLUMNS * product.across)
        self._halves = self._instruction.m // ROWS
        self._chunks = k // self._chunk
        self._steps = self._chunk // self._instruction.k
        self._groups = k // (QUAD * product.packed)
        self._c = scope.registers[product.call.region("c").source].array
        self._warp = tirx.floordiv(scope.thread, int32(WARP))
        self._lane = tirx.floormod(scope.thread, int32(WARP))

    @property
    def _chunk(self) -> int:
        """Elements along K that are loaded at once."""
        return max(self._instruction.k, QUAD * self._product.run)

    @property
    def _per_chunk(self) -> int:
        """Registers along K that are loaded at once."""
        return self._steps * self._product.groups

    def result(self) -> S.Stmt:
        """The whole product."""
        chunk = tirx.Var("step", "int32")
        sums = sums_of(self._product.call, self._c, as_dtype(self._product.total), self._held_sums)
        a, arrays_a, load_a = self._left(chunk)
        b, arrays_b, load_b = self._right(chunk)
        steps = [self._step(a, b, sums.array, chunk, step) for step in range(self._steps)]
        if self._steps == 1:
            body = visit.sequence([*load_a, *load_b(0), *steps], self._span)
        else:
            body = visit.sequence(
                [*load_a, *(stmt for at, step in enumerate(steps) for stmt in (*load_b(at), step))], self._span
            )
        loop = S.For(chunk, int32(0), int32(self._chunks), S.ForKind.UNROLLED, body, span=self._span)
        return phase(visit.sequence([*sums.before, *arrays_a, *arrays_b, loop, *sums.after], self._span))

    # -- C ---------------------------------------------------------------------------------------------------------

    @property
    def _held_sums(self) -> int:
        """Elements of C of a thread."""
        return self._down * self._across * 2 * self._halves

    def _step(self, a: ir.Var, b: ir.Var, sums: ir.Var, chunk: ir.Expr, step: int) -> S.Stmt:
        product, packed = self._product, self._product.packed
        group = int32(step * product.groups)
        whole = chunk * self._per_chunk + group

        def row(i: ir.Expr) -> S.Stmt:
            at = i * self._groups + whole if product.a is None and a.same_as(self._fragment("a")) else None
            at = (i * self._steps + step) * product.held_groups if at is None else at
            left = _address(a, at * (self._halves * packed))
            at_step = chunk * self._steps + step
            word = self._word(i, at_step) if self._instruction.sparse else None

            def column(j: ir.Expr) -> S.Stmt:
                c = _address(sums, (i * self._across + j) * (2 * self._halves))
                first = j * product.groups
                if product.b is None:
                    direct = b.same_as(self._fragment("b"))
                    first = j * self._groups + whole if direct else j * self._per_chunk + group
                right = _address(b, first * packed)
                if product.call.op is GEMM_SCALED:
                    return self._do(self._scaled(c, left, right, i, j, at_step))
                if word is not None:
                    return self._do(mma_sp(c, left, right, word, instruction=self._instruction))
                return self._do(mma(c, left, right, instruction=product.issued or self._instruction))

            return self._unrolled(self._across, column)

        return self._unrolled(self._down, row)

    def _word(self, at: ir.Expr, step: ir.Expr) -> ir.Expr:
        """A lane's word of metadata: where the stored elements of A belong."""
        return places(self._instruction, self._product.call, self._lane, self._row_of(at), step)

    def _scaled(self, c: ir.Expr, left: ir.Expr, right: ir.Expr, i: ir.Expr, j: ir.Expr, step: ir.Expr) -> ir.Expr:
        """The block-scaled instruction: of four lanes the first two have the words of A's rows, the first that of B."""
        quad, half = tirx.floordiv(self._lane, int32(QUAD)), tirx.floormod(self._lane, int32(2))
        row = self._row_of(i) + quad + half * ROWS
        column = tirx.floordiv(self._warp, int32(self._product.down)) * (self._across * COLUMNS) + j * COLUMNS + quad
        factors = (self._factor("a", row, step), self._factor("b", column, step))
        found = find(*OF_BYTES, self._instruction.a, self._instruction.b)
        assert found is not None
        return mma_scaled(c, left, right, *factors, instruction=found)

    def _factor(self, side: str, line: ir.Expr, step: ir.Expr) -> ir.Expr:
        """A word whose lowest byte is the factor of a step."""
        call = self._product.call
        region, start = call.region(FACTORS[side]), call.args["k_start"]
        first = start if str(start.ty.dtype) == "int32" else tirx.Cast("int32", start)
        number_of = tirx.floordiv(first + step * self._instruction.k, int32(granularity(call, side)))
        *leading, rows, words = (axis.min for axis in region.region)
        word = tirx.BufferLoad(
            region.source, [*leading, rows + line, words + tirx.floordiv(number_of, int32(IN_A_WORD))]
        )
        shift = tirx.Cast("uint32", tirx.floormod(number_of, int32(IN_A_WORD)) * int32(8))
        return tirx.shift_right(word, shift)

    # -- operands --------------------------------------------------------------------------------------------------

    def _fragment(self, side: str) -> ir.Var:
        return self._scope.registers[self._product.call.region(side).source].array

    def _array(self, side: str, elements: int) -> ir.Var:
        dtype = str(self._product.call.region(side).source.dtype)
        return tirx.decl_buffer((elements,), dtype, f"{side}_part", scope=regions.LOCAL, data_alignment=UNIT_BYTES)

    @property
    def _rounds(self) -> bool:
        """Whether operands are rounded on the way: the instruction would cut bits off."""
        return self._instruction.a == "tfloat32"

    def _rounded(self, array: ir.Var, count: int) -> list[S.Stmt]:
        if not self._rounds:
            return []
        return [self._unrolled(count, lambda at: self._store(array, at, round_tf32(tirx.BufferLoad(array, [at]))))]

    def _left(self, chunk: ir.Expr) -> tuple[ir.Var, list[S.Stmt], list[S.Stmt]]:
        """The array of A, what declares it, and what fills it for a chunk of K."""
        product, operand = self._product, self._product.a
        count = self._down * self._steps * product.held_groups * self._halves * product.packed
        if operand is None:
            return self._held("a", count, self._down, self._halves * product.packed, chunk)
        array = self._array("a", count)
        load = self._row_runs if product.run > product.packed else self._matrices_of_a
        loaded = self._unrolled(self._down, lambda at: load(operand, array, at, chunk))
        return array, [S.AllocBuffer(array, span=self._span)], [loaded, *self._rounded(array, count)]

    def _right(self, chunk: ir.Expr) -> tuple[ir.Var, list[S.Stmt], Callable[[int], list[S.Stmt]]]:
        """The same for B, but for a step of the chunk."""
        product, operand = self._product, self._product.b
        if operand is None:
            count = self._across * self._per_chunk * product.packed
            array, arrays, fill = self._held("b", count, self._across, product.packed, chunk)
            return array, arrays, lambda step: [] if step else fill
        count = self._across * product.groups * product.packed
        array = self._array("b", count)

        def load(_step: int) -> list[S.Stmt]:
            return [*self._matrices_of_b(operand, array, chunk), *self._rounded(array, count)]

        return array, [S.AllocBuffer(array, span=self._span)], load

    def _held(
        self, side: str, count: int, repeats: int, elements: int, chunk: ir.Expr
    ) -> tuple[ir.Var, list[S.Stmt], list[S.Stmt]]:
        """An operand in registers: as it is, or rounded to a copy."""
        fragment = self._fragment(side)
        if not self._rounds:
            return fragment, [], []
        array, piece = self._array(side, count), self._per_chunk * elements

        def repeat(i: ir.Expr) -> S.Stmt:
            def element(at: ir.Expr) -> S.Stmt:
                value = tirx.BufferLoad(fragment, [(i * self._groups + chunk * self._per_chunk) * elements + at])
                return self._store(array, i * piece + at, round_tf32(value))

            return self._unrolled(piece, element)

        return array, [S.AllocBuffer(array, span=self._span)], [self._unrolled(repeats, repeat)]

    def _row_of(self, at: ir.Expr) -> ir.Expr:
        """The first row of a repetition."""
        first = tirx.floormod(self._warp, int32(self._product.down)) * self._instruction.m
        return first + at * (self._instruction.m * self._product.down)

    def _matrices_of_a(self, operand: SharedMatrix, array: ir.Var, at: ir.Expr, chunk: ir.Expr) -> S.Stmt:
        """The rows of one instruction: matrices by halves of the rows, then along K."""
        matrices, packed = self._halves * self._product.held_groups, self._product.packed
        row, depth = self._row_of(at), chunk * (self._product.held_groups * QUAD * packed)
        if not _moves_in_matrices(operand) or matrices > MOST_MATRICES:
            return self._one_by_one(operand, array, at, row, depth)
        matrix = tirx.floormod(tirx.floordiv(self._lane, int32(ROWS)), int32(matrices))
        half, group = tirx.floormod(matrix, int32(self._halves)), tirx.floordiv(matrix, int32(self._halves))
        place = self._matrix_row(operand, row + half * ROWS, depth, group)
        registers = _address(array, at * (matrices * packed))
        return self._do(self._loaded("a", operand, registers, place, matrices))

    def _loaded(self, side: str, operand: SharedMatrix, registers: ir.Expr, place: ir.Expr, matrices: int) -> ir.Expr:
        """Matrices of an operand, whose rows may be units."""
        units = in_units(self._product.call, side)
        trans = not operand.depth_is_contiguous
        return reading(ldmatrix(registers, place, count=matrices, trans=trans, units=units))

    def _matrix_row(self, operand: SharedMatrix, outer: ir.Expr, depth: ir.Expr, group: ir.Expr) -> ir.Expr:
        """The row of a matrix that this lane names."""
        own, width = tirx.floormod(self._lane, int32(ROWS)), QUAD * self._product.packed
        if operand.depth_is_contiguous:
            return operand.address(outer + own, depth + group * width)
        return operand.address(outer, depth + group * width + own)

    def _one_by_one(self, operand: SharedMatrix, array: ir.Var, at: ir.Expr, row: ir.Expr, depth: ir.Expr) -> S.Stmt:
        layout = self._instruction.a_layout

        def element(register: ir.Expr) -> S.Stmt:
            i, k = self._coordinates(layout.lane_digits, layout.register_digits, register)
            return self._store(array, at * layout.registers + register, operand.element(row + i, depth + k))

        return self._unrolled(layout.registers, element)

    def _coordinates(
        self, lanes: tuple[Digit, ...], registers: tuple[Digit, ...], register: ir.Expr
    ) -> tuple[ir.Expr, ir.Expr]:
        """Row and column of a register of this lane."""
        (lane_row, lane_column), (row, column) = coordinates(lanes, self._lane), coordinates(registers, register)
        return lane_row + row, lane_column + column

    def _row_runs(self, operand: SharedMatrix, array: ir.Var, at: ir.Expr, chunk: ir.Expr) -> S.Stmt:
        """The runs of a lane's rows, 16 bytes at a time, each dealt to the registers of several instructions."""
        product, packed = self._product, self._product.packed
        width = UNIT_BYTES * 8 // self._instruction.operand_bits
        quad = tirx.floormod(self._lane, int32(QUAD))
        row = self._row_of(at) + tirx.floordiv(self._lane, int32(QUAD))
        found: list[S.Stmt] = []
        for half in range(self._halves):
            for unit in range(product.run // width):
                moved = self._array("a", width)
                depth = chunk * self._chunk + quad * product.run + unit * width
                vector = operand.element(row + half * ROWS, depth, width)
                found += [S.AllocBuffer(moved, span=self._span), self._move(moved, int32(0), vector, width)]
                for register in range(width // packed):
                    group = unit * (width // packed) + register
                    place = ((at * self._per_chunk + group) * self._halves + half) * packed
                    own = tirx.BufferLoad(moved, [_several(int32(register * packed), packed)])
                    found.append(self._move(array, place, own, packed))
        return visit.sequence(found, self._span)

    def _matrices_of_b(self, operand: SharedMatrix, array: ir.Var, chunk: ir.Expr) -> list[S.Stmt]:
        """The columns of a warp, as many at a time as an instruction loads."""
        product, groups = self._product, self._product.groups
        first = tirx.floordiv(self._warp, int32(product.down)) * (self._across * COLUMNS)
        depth = chunk * self._instruction.k
        if not _moves_in_matrices(operand) or groups > MOST_MATRICES:
            return [self._unrolled(self._across, lambda at: self._column_one_by_one(operand, array, at, first, depth))]

        def part(at: ir.Expr, columns: int) -> S.Stmt:
            matrices = groups * columns
            matrix = tirx.floormod(tirx.floordiv(self._lane, int32(ROWS)), int32(matrices))
            group, column = tirx.floormod(matrix, int32(groups)), tirx.floordiv(matrix, int32(groups))
            place = self._matrix_row(operand, first + (at + column) * COLUMNS, depth, group)
            registers = _address(array, at * (groups * product.packed))
            return self._do(self._loaded("b", operand, registers, place, matrices))

        found: list[S.Stmt] = []
        done, columns = 0, min(2, MOST_MATRICES // groups)
        while columns:
            repeats = (self._across - done) // columns
            if repeats:
                found.append(self._unrolled(repeats, partial(_nth, part, done, columns)))
            done, columns = done + repeats * columns, columns // 2
        return found

    def _column_one_by_one(
        self, operand: SharedMatrix, array: ir.Var, at: ir.Expr, first: ir.Expr, depth: ir.Expr
    ) -> S.Stmt:
        layout = self._instruction.b_layout
        assert layout is not None

        def element(register: ir.Expr) -> S.Stmt:
            k, j = self._coordinates(layout.lane_digits, layout.register_digits, register)
            value = operand.element(first + at * COLUMNS + j, depth + k)
            return self._store(array, at * layout.registers + register, value)

        return self._unrolled(layout.registers, element)

    # -- statements ------------------------------------------------------------------------------------------------

    def _unrolled(self, count: int, body: Callable[[ir.Expr], S.Stmt]) -> S.Stmt:
        return unrolled(count, body, self._span)

    def _store(self, array: ir.Var, at: ir.Expr, value: ir.Expr) -> S.Stmt:
        return S.BufferStore(array, value, [at], self._span)

    def _move(self, array: ir.Var, at: ir.Expr, value: ir.Expr, count: int) -> S.Stmt:
        return S.BufferStore(array, value, [_several(at, count)], self._span)

    def _do(self, call: ir.Expr) -> S.Stmt:
        return S.Evaluate(call, self._span)


def _nth(part: Callable[[ir.Expr, int], S.Stmt], first: int, count: int, at: ir.Expr) -> S.Stmt:
    """The part `at`, of `count` columns, from column `first` on."""
    return part(at * count + first, count)


def _moves_in_matrices(operand: SharedMatrix) -> bool:
    """Whether `ldmatrix` loads it: whole units of rows, summed along them or of 16-bit elements."""
    return operand.has_units and (operand.depth_is_contiguous or operand.itemsize == 2) and operand.itemsize <= 4


def _address(array: ir.Var, register: ir.Expr) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(array, [register]))


def _several(index: ir.Expr, count: int) -> ir.Expr:
    return index if count == 1 else E.Ramp(index, E.IntImm(index.ty, 1), count)
