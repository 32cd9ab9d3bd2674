"""`T.gemm` by SIMD-group matrices: which products they compute, and the statements that do.

SIMD-groups are dealt to the rows and columns of C, which is a fragment. Step by step along K, a lane reads its elements
of A and B from threadgroup memory, two neighbours at once where they are, and multiplies. Sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.layouts.swizzle import UNIT_BYTES, SwizzledTile
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import GEMM, packed, sizes, transposed
from tile_core.passes.matrix import Held, MatrixProduct
from tile_core.passes.matrix_products import Refusal, shares, sums_of, unrolled
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_metal.exchanges import LANES
from tile_metal.simdgroup import COLUMN_DIGITS, OPERANDS, PAIR, ROW_DIGITS, SIZE, multiply, place_in_matrix

_TOTAL = "float32"
_RESULTS = (_TOTAL, "float16", "bfloat16")


@dataclass(frozen=True)
class SimdgroupProduct:
    """One `tile.gemm`; `down` × `across` SIMD-groups share C."""

    call: OpCall
    down: int
    across: int

    @property
    def tiles(self) -> Mapping[ir.Var, SwizzledTile]:
        """Shared operands stay row by row."""
        return MappingProxyType({})

    @property
    def held(self) -> tuple[Held, ...]:
        """C, and A where it is a fragment."""
        m, n, k = sizes(self.call)
        rows = (*ROW_DIGITS, Digit(self.down, stride=LANES), Digit(m // (SIZE * self.down), rank=2))
        repeats, groups = Digit(n // (SIZE * self.across), rank=1), Digit(self.across, stride=LANES * self.down)
        found = [Held(self.call.region("c").source, _real(rows), _real((*COLUMN_DIGITS, repeats, groups)))]
        if regions.scope(self.call.region("a").source) == regions.FRAGMENT:
            depth = (*COLUMN_DIGITS, Digit(k // SIZE, rank=1))
            found.append(Held(self.call.region("a").source, _real(rows), _real(depth)))
        return tuple(found)

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """Load operands and multiply, step by step along K."""
        return _Issue(self, scope).result()


class _Issue:
    """One product in one thread."""

    def __init__(self, product: SimdgroupProduct, scope: ThreadScope) -> None:
        self._call, self._scope, self._span = product.call, scope, product.call.span
        m, n, k = sizes(product.call)
        self._down, self._across, self._steps = m // (SIZE * product.down), n // (SIZE * product.across), k // SIZE
        group = tirx.floordiv(scope.thread, int32(LANES))
        self._row, self._column = place_in_matrix(tirx.floormod(scope.thread, int32(LANES)))
        self._first_row = tirx.floormod(group, int32(product.down)) * SIZE
        self._row_stride = SIZE * product.down
        self._first_column = tirx.floordiv(group, int32(product.down)) * (self._across * SIZE)
        self._c = scope.registers[product.call.region("c").source].array

    def result(self) -> S.Stmt:
        count = self._down * self._across * PAIR
        sums = sums_of(self._call, self._c, as_dtype(_TOTAL), count)
        step = tirx.Var("step", "int32")
        left, loads, row = self._left(step)
        right = self._array("b", PAIR * self._across)
        loads += [S.AllocBuffer(right, span=self._span), unrolled(self._across, self._loads_b(right, step), self._span)]

        def product(i: ir.Expr) -> S.Stmt:
            def one(j: ir.Expr) -> S.Stmt:
                places = (i * self._across + j) * PAIR, row(i), j * PAIR
                arrays = (sums.array, left, right)
                addresses = [_address(array, place) for array, place in zip(arrays, places, strict=True)]
                return S.Evaluate(multiply(*addresses), self._span)

            return unrolled(self._across, one, self._span)

        body = visit.sequence([*loads, unrolled(self._down, product, self._span)], self._span)
        loop = S.For(step, int32(0), int32(self._steps), S.ForKind.UNROLLED, body, span=self._span)
        return phase(visit.sequence([*sums.before, loop, *sums.after], self._span))

    def _left(self, step: ir.Expr) -> tuple[ir.Var, list[S.Stmt], Callable[[ir.Expr], ir.Expr]]:
        """The registers of A, what fills them for a step, and where a row of matrices begins in them."""
        buffer = self._call.region("a").source
        if buffer in self._scope.registers:
            return self._scope.registers[buffer].array, [], lambda i: (i * self._steps + step) * PAIR
        array = self._array("a", PAIR * self._down)

        def load(i: ir.Expr) -> S.Stmt:
            row = self._first_row + i * self._row_stride + self._row
            return self._pair("a", array, i * PAIR, row, step * SIZE + self._column)

        fill = unrolled(self._down, load, self._span)
        return array, [S.AllocBuffer(array, span=self._span), fill], lambda i: i * PAIR

    def _loads_b(self, array: ir.Var, step: ir.Expr) -> Callable[[ir.Expr], S.Stmt]:
        def load(j: ir.Expr) -> S.Stmt:
            column = self._first_column + j * SIZE + self._column
            return self._pair("b", array, j * PAIR, step * SIZE + self._row, column)

        return load

    def _pair(self, side: str, array: ir.Var, at: ir.Expr, row: ir.Expr, column: ir.Expr) -> S.Stmt:
        """Two neighbours of a row of an operand, at once where they lie side by side at a multiple of their size."""
        region, swaps = self._call.region(side), transposed(self._call, side)
        buffer = self._scope.shared.get(region.source, region.source)
        *leading, first, second = (axis.min for axis in region.region)

        def place(offset: int) -> list[ir.Expr]:
            along = column + offset
            return [*leading, first + (along if swaps else row), second + (row if swaps else along)]

        if not swaps and all(Analyzer().is_multiple(value, PAIR) for value in (second, buffer.shape[-1])):
            *others, last = place(0)
            value = tirx.BufferLoad(buffer, [*others, _pair_from(last)])
            return S.BufferStore(array, value, [_pair_from(at)], self._span)
        stores = [self._store(array, at + offset, tirx.BufferLoad(buffer, place(offset))) for offset in range(PAIR)]
        return visit.sequence(stores, self._span)

    def _array(self, side: str, elements: int) -> ir.Var:
        dtype = str(self._call.region(side).source.dtype)
        return tirx.decl_buffer((elements,), dtype, f"{side}_part", scope=regions.LOCAL, data_alignment=UNIT_BYTES)

    def _store(self, array: ir.Var, at: ir.Expr, value: ir.Expr) -> S.Stmt:
        return S.BufferStore(array, value, [at], self._span)


@dataclass(frozen=True)
class SimdgroupMatrices:
    """The matrix units of an Apple GPU. See `tile_core.passes.matrix.MatrixUnits`."""

    @property
    def memories(self) -> frozenset[str]:
        """There is no memory of matrices."""
        return frozenset()

    def product(self, call: OpCall, threads: int, _capabilities: Any) -> MatrixProduct | None:
        """The product, `None` where SIMD-group matrices do not cover it."""
        found = _product(call, threads)
        return None if isinstance(found, Refusal) else found

    def explain(self, call: OpCall, threads: int) -> str:
        """For the report: what computes `call`."""
        found = _product(call, threads)
        return f"scalar code ({found.why})" if isinstance(found, Refusal) else "simdgroup_multiply_accumulate 8 × 8 × 8"

    def store(self, _call: OpCall, _scope: ThreadScope) -> S.Stmt | None:
        """Results are elements of their lanes."""
        return None

    def hold(self, _fragment: ir.Var, _scope: ThreadScope) -> S.Stmt:
        """No product runs beside its lanes."""
        return visit.sequence([])

    def settle(self, _fragment: ir.Var, _in_flight: int, _scope: ThreadScope, span: ir.Span | None = None) -> S.Stmt:
        """No product runs beside its lanes."""
        return visit.sequence([], span)


def _product(call: OpCall, threads: int) -> SimdgroupProduct | Refusal:
    """The product, or why there is none."""
    a, b, c = (str(call.region(side).source.dtype) for side in "abc")
    if call.op is not GEMM or packed(call, "a") is not None or packed(call, "b") is not None:
        return Refusal("SIMD-group matrices have neither factors nor values of four bits")
    if a != b or a not in OPERANDS or c not in _RESULTS:
        return Refusal(f"SIMD-group matrices multiply {', '.join(OPERANDS)}, not {a} and {b} into {c}")
    if threads % LANES:
        return Refusal(f"{threads} threads are not whole SIMD-groups")
    if regions.scope(call.region("c").source) != regions.FRAGMENT:
        return Refusal("C is not a fragment")
    if regions.scope(call.region("b").source) not in regions.SHARED:
        return Refusal("B is not in threadgroup memory")
    if transposed(call, "a") and regions.scope(call.region("a").source) == regions.FRAGMENT:
        return Refusal("A is a fragment that is stored transposed")
    m, n, k = sizes(call)
    if not m or not n or not k or m % SIZE or n % SIZE or k % SIZE:
        return Refusal(f"the tile {m} × {n} × {k} is not made of multiples of {SIZE}")
    split = shares(m, n, SIZE, SIZE, threads // LANES, int(call.attrs.get("policy", 0)))
    if split is None:
        return Refusal(f"{threads // LANES} SIMD-groups cannot share {m} × {n} in pieces of {SIZE} × {SIZE}")
    return SimdgroupProduct(call, *split)


def _real(digits: AxisDigits) -> AxisDigits:
    """Digits with more than one value."""
    return tuple(digit for digit in digits if digit.count > 1)


def _pair_from(index: ir.Expr) -> ir.Expr:
    return E.Ramp(index, E.IntImm(index.ty, 1), PAIR)


def _address(array: ir.Var, register: ir.Expr) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(array, [register]))
