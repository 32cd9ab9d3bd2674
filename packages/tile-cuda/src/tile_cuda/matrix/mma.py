"""Products by warps (`mma`): a warp multiplies 16 rows by 8 columns, all operands in registers.

Warps are dealt to the rows and columns of C. Shared operands are loaded by `ldmatrix`, four 8 × 8 matrices at a time,
from swizzled tiles without bank conflicts; an operand that is stored the other way round is transposed on the way.
The order of registers is PTX's ("Matrix fragments for mma.m16n8k16" and its relatives).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.layouts.swizzle import UNIT_BYTES
from tile_core.ops.base import OpCall
from tile_core.ops.build import number
from tile_core.ops.gemm import sizes, transposed
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.ldmatrix import ldmatrix
from tile_cuda.instructions.mma import mma
from tile_cuda.instructions.shapes import find
from tile_cuda.matrix.operands import SharedMatrix, reading, shared_matrix
from tile_cuda.matrix.product import FULL_COLUMN, FULL_ROW, Product

WARP = 32
ROWS, COLUMNS, DEPTH_BYTES = 16, 8, 32
WORD_BYTES = 4


@dataclass(frozen=True)
class WarpProduct(Product):
    """One `tile.gemm` as warp instructions; `down` × `across` warps share C."""

    def rows(self, m: int) -> AxisDigits:
        """See `_rows`."""
        return _rows(m, self.down)

    def columns(self, n: int, across: int) -> AxisDigits:
        """See `_columns`."""
        return _columns(n, self.down, across)

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """Load operands and multiply, step by step along K."""
        return _Issue(self, scope).result()


def warp_product(call: OpCall, threads: int, capability: int) -> WarpProduct | None:
    """The product, `None` where its shape, dtypes or tiles are not those of the instruction."""
    m, n, k = sizes(call)
    a_dtype, b_dtype, c_dtype = (as_dtype(str(call.region(side).source.dtype)) for side in "abc")
    if threads % WARP or a_dtype.bits not in (8, 16) or c_dtype.bits != 32:
        return None
    depth = DEPTH_BYTES * 8 // a_dtype.bits
    instruction = find("mma", (ROWS, COLUMNS, depth), c_dtype.name, a_dtype.name, b_dtype.name)
    split = _split(m, n, threads // WARP, int(call.attrs.get("policy", 0)))
    if instruction is None or not instruction.exists_on(capability) or split is None or k % depth:
        return None
    b = _operand(call, "b", transposed(call, "b"))
    if b is None or regions.scope(call.region("c").source) != regions.FRAGMENT:
        return None
    if regions.scope(call.region("a").source) == regions.FRAGMENT:
        if a_dtype.bits != 16 or transposed(call, "a"):
            return None
        return WarpProduct(call, instruction, *split, None, b)
    a = _operand(call, "a", not transposed(call, "a"))
    return None if a is None else WarpProduct(call, instruction, *split, a, b)


def _operand(call: OpCall, side: str, depth_is_last: bool) -> SharedMatrix | None:
    found = shared_matrix(call.region(side), depth_is_last=depth_is_last)
    if found is None or not (depth_is_last or found.tile.itemsize == 2):
        return None
    return found if found.begins(1, UNIT_BYTES // found.tile.itemsize) else None


def _split(m: int, n: int, warps: int, policy: int) -> tuple[int, int] | None:
    """Warps along M and N; without a policy as square as the shares of a warp can be."""
    found = [
        (down, warps // down)
        for down in range(1, warps + 1)
        if warps % down == 0 and m % (ROWS * down) == 0 and n % (COLUMNS * (warps // down)) == 0
    ]
    if not found:
        return None
    if policy == FULL_ROW:
        return found[-1]
    if policy == FULL_COLUMN:
        return found[0]
    return min(found, key=lambda split: m // split[0] + n // split[1])


def _rows(m: int, down: int) -> AxisDigits:
    """Rows of C: lane / 4, two registers, warps, repetitions."""
    return (Digit(8, stride=4), Digit(2, rank=1), Digit(down, stride=WARP), Digit(m // (ROWS * down), rank=3))


def _columns(n: int, down: int, across: int) -> AxisDigits:
    """Columns of C: two registers, lane % 4, repetitions, warps."""
    return (
        Digit(2, rank=0, lane=True),
        Digit(4, stride=1),
        Digit(n // (COLUMNS * across), rank=2),
        Digit(across, stride=WARP * down),
    )


class _Issue:
    def __init__(self, product: WarpProduct, scope: ThreadScope) -> None:
        self._product, self._scope, self._span = product, scope, product.call.span
        m, n, k = sizes(product.call)
        self._down, self._across = m // (ROWS * product.down), n // (COLUMNS * product.across)
        self._steps = k // product.instruction.k
        self._dtype = str(product.call.region("a").source.dtype)
        self._word = WORD_BYTES * 8 // as_dtype(self._dtype).bits
        self._c = scope.registers[product.call.region("c").source].array
        self._warp = tirx.floordiv(scope.thread, int32(WARP))
        self._lane = tirx.floormod(scope.thread, int32(WARP))

    def result(self) -> S.Stmt:
        a, load_a = self._left()
        b = self._array("b", self._across * 2 * self._word)
        step = tirx.Var("step", "int32")
        body = visit.sequence([*load_a(step), *self._right(b, step), self._multiply(a, b, step)], self._span)
        loop = S.For(step, int32(0), int32(self._steps), S.ForKind.UNROLLED, body, span=self._span)
        arrays = [S.AllocBuffer(b, span=self._span)]
        if self._product.a is not None:
            arrays.append(S.AllocBuffer(a, span=self._span))
        return phase(visit.sequence([*self._cleared(), *arrays, loop], self._span))

    def _array(self, name: str, elements: int) -> ir.Var:
        dtype = str(self._product.call.region(name).source.dtype)
        return tirx.decl_buffer((elements,), dtype, f"{name}_part", scope=regions.LOCAL, data_alignment=UNIT_BYTES)

    def _cleared(self) -> list[S.Stmt]:
        """C set to zero where the call wants that."""
        clear = self._product.call.args["clear_accum"]
        fixed = regions.constant(clear)
        if fixed == 0:
            return []
        count = self._down * self._across * 4
        zero = number(0, as_dtype(str(self._c.dtype)))
        body = self._unrolled(count, lambda at: S.BufferStore(self._c, zero, [at], self._span))
        return [body if fixed else S.IfThenElse(clear, body, None, self._span)]

    def _unrolled(self, count: int, body: Callable[[ir.Expr], S.Stmt]) -> S.Stmt:
        at = tirx.Var("part", "int32")
        return S.For(at, int32(0), int32(count), S.ForKind.UNROLLED, body(at), span=self._span)

    def _left(self) -> tuple[ir.Var, Callable[[ir.Expr], list[S.Stmt]]]:
        """The array of A and the statements that fill it for a step: none where A is a fragment."""
        operand = self._product.a
        if operand is None:
            return self._scope.registers[self._product.call.region("a").source].array, lambda _step: []
        array = self._array("a", self._down * 4 * self._word)
        first = tirx.floormod(self._warp, int32(self._product.down)) * ROWS
        lane, depth = self._lane, self._product.instruction.k

        def load(step: ir.Expr) -> list[S.Stmt]:
            def part(at: ir.Expr) -> S.Stmt:
                row = first + at * (ROWS * self._product.down)
                if operand.depth_is_contiguous:
                    outer, inner = lane % 16, tirx.floordiv(lane, int32(16)) * (depth // 2)
                else:
                    outer, inner = tirx.floordiv(lane, int32(8)) % 2 * 8, lane % 8 + tirx.floordiv(lane, int32(16)) * 8
                place = operand.address(row + outer, step * depth + inner)
                registers = self._address(array, at * (4 * self._word))
                return self._do(reading(ldmatrix(registers, place, count=4, trans=not operand.depth_is_contiguous)))

            return [self._unrolled(self._down, part)]

        return array, load

    def _right(self, array: ir.Var, step: ir.Expr) -> list[S.Stmt]:
        """B for a step: pairs of eight columns, and one more where their number is odd."""
        operand, depth, lane = self._product.b, self._product.instruction.k, self._lane
        stride = self._across * COLUMNS
        first = tirx.floordiv(self._warp, int32(self._product.down)) * stride

        def part(at: ir.Expr, count: int) -> S.Stmt:
            if operand.depth_is_contiguous:
                outer = lane % 8 + (tirx.floordiv(lane, int32(16)) * 8 if count == 4 else 0)
                inner = tirx.floordiv(lane, int32(8)) % 2 * (depth // 2)
            else:
                outer = tirx.floordiv(lane, int32(16)) * 8 if count == 4 else int32(0)
                inner = lane % 16
            place = operand.address(first + at * COLUMNS + outer, step * depth + inner)
            registers = self._address(array, at * (2 * self._word))
            return self._do(reading(ldmatrix(registers, place, count=count, trans=not operand.depth_is_contiguous)))

        found: list[S.Stmt] = []
        if pairs := self._across // 2:
            found.append(self._unrolled(pairs, lambda at: part(at * 2, 4)))
        if self._across % 2:
            found.append(part(int32(self._across - 1), 2))
        return found

    def _multiply(self, a: ir.Var, b: ir.Var, step: ir.Expr) -> S.Stmt:
        steps = self._steps if self._product.a is None else 1
        at_step = step if self._product.a is None else int32(0)

        def row(i: ir.Expr) -> S.Stmt:
            left = self._address(a, (i * steps + at_step) * (4 * self._word))

            def column(j: ir.Expr) -> S.Stmt:
                c = self._address(self._c, (i * self._across + j) * 4)
                right = self._address(b, j * (2 * self._word))
                return self._do(mma(c, left, right, instruction=self._product.instruction))

            return self._unrolled(self._across, column)

        return self._unrolled(self._down, row)

    def _address(self, array: ir.Var, register: ir.Expr) -> ir.Expr:
        return tirx.address_of(tirx.BufferLoad(array, [register]))

    def _do(self, call: ir.Expr) -> S.Stmt:
        return S.Evaluate(call, self._span)
