"""One step of a matrix product, `tile.product`: a thread's piece of C from rows of A and columns of B in registers.

A thread reads the part of B that its columns need, then row by row the part of A, and adds all their products to its
registers: each element is read once and serves a whole row or column of the piece. What lies side by side in memory,
along K or along the columns, is read as vectors. Elements beyond the tile are read as zeros, so the products need no
guards; the sums beyond it begin as zeros too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ops.build import number
from tile_core.passes.accesses import Access, aligned_width, lane_stride, substitute, uses
from tile_core.passes.layout_plan import NestPlan
from tile_core.passes.nests import ParallelNest
from tile_core.passes.thread_scope import ThreadScope, conjunction, guarded, int32


@dataclass(frozen=True)
class _Step:
    """`sums += left * right` for each of `count` positions `k` along K."""

    k: ir.Var
    count: int
    sums: ir.TensorLoad
    left: ir.Expr
    right: ir.Expr


def emit_product(scope: ThreadScope, nest: ParallelNest, plan: NestPlan, steps: list[ir.Var]) -> S.Stmt | None:
    """The statements for a step of a product; `None` where it is not one that this module knows."""
    step = _step(nest.body)
    whole = tuple(plan.extents) == tuple(plan.mapping.extents)
    if not nest.is_product or step is None or not whole or len(steps) != 2 or step.sums.source not in scope.registers:
        return None
    row, column = nest.variables
    if uses(step.left, (column,)) or uses(step.right, (row,)):
        return None
    product = _Product(scope, nest, plan, steps, step)
    return product.result() if product.is_readable and not product.tells_places_apart else None


def _step(body: S.Stmt) -> _Step | None:
    """The body of a nest as a step; `None` for any other body."""
    if not isinstance(body, S.For) or not isinstance(body.body, S.BufferStore):
        return None
    store, count = body.body, regions.constant(body.extent)
    total = store.value
    if count is None or regions.constant(body.min) != 0 or not isinstance(total, E.Add):
        return None
    if not isinstance(total.a, ir.TensorLoad) or not isinstance(total.b, E.Mul):
        return None
    return _Step(body.loop_var, count, total.a, total.b.a, total.b.b)


class _Operand:
    """One side of the product: an expression with one load, of which a thread reads several elements."""

    def __init__(self, scope: ThreadScope, expr: ir.Expr, k: ir.Var, name: str) -> None:
        loads = visit.collect(expr, ir.TensorLoad)
        self.expr, self._scope, self._k = expr, scope, k
        self.is_readable = len(loads) == 1 and regions.scope(self._tile(loads[0].source)) in (
            regions.GLOBAL,
            *regions.SHARED,
        )
        if self.is_readable:
            self._load = loads[0]
            self._name = name
            self._analyzer = Analyzer()

    def _tile(self, buffer: ir.Var) -> ir.Var:
        return self._scope.shared.get(buffer, buffer)

    def width(self, along: ir.Var, count: int) -> int:
        """How many of `count` elements along a variable are read at once."""
        access = Access(self._load.source, tuple(self._load.indices), False)
        is_shared = regions.scope(self._tile(access.buffer)) in regions.SHARED
        if not is_shared or access.itemsize * 8 != int(access.buffer.dtype.bits):
            return 1
        if lane_stride(access, along, self._analyzer) != 1:
            return 1
        widest = 1
        while count % (2 * widest) == 0 and 2 * widest * access.itemsize <= self._scope.vector_bytes:
            widest *= 2
        return aligned_width(access, along, widest, self._analyzer)

    def array(self, elements: int) -> ir.Var:
        """Room for elements as they are in memory."""
        alignment = self._scope.vector_bytes
        dtype = str(self._load.source.dtype)
        return tirx.decl_buffer((elements,), dtype, self._name, scope=regions.LOCAL, data_alignment=alignment)

    def read(self, array: ir.Var, place: ir.Expr, values: dict[ir.Var, ir.Expr], along: ir.Var, width: int) -> S.Stmt:
        """`width` elements from `values` on, along `along`, into the array."""
        moved = {**values, along: values.get(along, along)}
        indices = [substitute(index, moved) for index in self._load.indices]
        if width == 1:
            return S.BufferStore(array, tirx.BufferLoad(self._tile(self._load.source), indices), [place])
        axis = max(axis for axis, index in enumerate(self._load.indices) if uses(index, (along,)))
        indices[axis] = _ramp(self._analyzer.simplify(indices[axis]), width)
        return S.BufferStore(array, tirx.BufferLoad(self._tile(self._load.source), indices), [_ramp(place, width)])

    def value(self, array: ir.Var, place: ir.Expr) -> ir.Expr:
        """The operand's value of an element in the array."""
        return visit.mutate(self.expr, (ir.TensorLoad, lambda _node, _mutator: tirx.BufferLoad(array, [place])))


def cleared(array: ir.Var) -> S.Stmt:
    """Zeros in every element of an array of registers."""
    return _zeros(array, int32(0), int(array.shape[0].value))


def _zeros(array: ir.Var, place: ir.Expr, width: int) -> S.Stmt:
    lane = tirx.Var("lane", "int32")
    store = S.BufferStore(array, number(0, as_dtype(str(array.dtype))), [place + lane])
    return S.For(lane, int32(0), int32(width), S.ForKind.UNROLLED, store)


def _ramp(index: ir.Expr, width: int) -> ir.Expr:
    return E.Ramp(index, E.IntImm(index.ty, 1), width)


class _Product:
    def __init__(
        self, scope: ThreadScope, nest: ParallelNest, plan: NestPlan, steps: list[ir.Var], step: _Step
    ) -> None:
        self._scope, self._nest, self._plan, self._steps, self._step = scope, nest, plan, steps, step
        self._mapping = plan.mapping
        self._span = nest.loops[0].span
        self._lanes = self._mapping.vector
        self._row, self._column = nest.variables
        self._index = self._mapping.indices(scope.thread, steps)
        self._left = _Operand(scope, step.left, step.k, "rows")
        self._right = _Operand(scope, step.right, step.k, "columns")

    @property
    def is_readable(self) -> bool:
        """Whether both operands are in memory."""
        return self._left.is_readable and self._right.is_readable

    @property
    def tells_places_apart(self) -> bool:
        """Whether an operand's value depends on more than its element, as half of a byte does."""
        names = (self._row, self._column, self._step.k)
        return any(uses(side.value(side.array(1), int32(0)), names) for side in (self._left, self._right))

    def result(self) -> S.Stmt:
        """Columns first, then row by row."""
        count, (rows, columns) = self._step.count, self._mapping.steps
        right, left = self._right.array(count * columns * self._lanes), self._left.array(count)
        read_columns, place = self._read_columns(right, columns)
        row_guards, column_guards, both = self._guards()
        if row_guards or column_guards:
            self._scope.ragged.add(self._scope.registers[self._step.sums.source].array)
        body = visit.sequence([self._read_row(left, row_guards), self._add(left, right, columns, place)], self._span)
        parts: list[S.Stmt] = [
            S.AllocBuffer(right),
            *read_columns,
            S.AllocBuffer(left),
            self._unrolled(self._steps[0], rows, body),
        ]
        return guarded(both, visit.sequence(parts, self._span))

    def _unrolled(self, var: ir.Var, count: int, body: S.Stmt) -> S.Stmt:
        if count == 1:
            return substitute(body, {var: int32(0)})
        return S.For(var, int32(0), int32(count), S.ForKind.UNROLLED, body, span=self._span)

    def _guards(self) -> tuple[list[ir.Expr], list[ir.Expr], list[ir.Expr]]:
        """Conditions on a row, on a column (at the last lane), and on the thread."""
        names = [self._row, self._column]
        found = self._mapping.guards(self._scope.thread, self._steps, names, 0, self._lanes - 1)
        rows = [condition for condition in found if uses(condition, (self._row,))]
        columns = [condition for condition in found if uses(condition, (self._column,))]
        both = [condition for condition in found if not uses(condition, names)]
        at = {self._row: self._index[0]}
        return [substitute(condition, at) for condition in rows], columns, both

    def _read_columns(self, array: ir.Var, columns: int) -> tuple[list[S.Stmt], Callable[..., Any]]:
        """The reads of B's part; where an element is, by position along K, step and lane."""
        count, lanes, step = self._step.count, self._lanes, tirx.Var(str(self._steps[1].name), "int32")
        start = substitute(self._index[1], {self._steps[1]: step})
        across = self._right.width(self._column, lanes)
        along = self._right.width(self._step.k, count) if across == 1 else 1

        def place(k: Any, at: Any, lane: Any) -> Any:
            return (at * lanes + lane) * count + k if along > 1 else (k * columns + at) * lanes + lane

        width = max(across, along)
        first, second = tirx.Var("lane", "int32"), tirx.Var("k", "int32")
        lane = first * across if across > 1 else first
        k = second * along if along > 1 else second
        moving, base = (self._step.k, k) if along > 1 else (self._column, start + lane)
        values = {self._column: start + lane, self._step.k: k, moving: base}
        read = self._right.read(array, place(k, step, lane), values, moving, width)
        read = self._or_zero(read, self._column_guards(start, lane, across), array, place(k, step, lane), width)
        read = self._unrolled(first, lanes // across, read)
        read = self._unrolled(step, columns, read)
        return [self._unrolled(second, count // along, read)], place

    def _column_guards(self, start: ir.Expr, lane: ir.Expr, width: int) -> list[ir.Expr]:
        """Whether the columns from `lane` on are inside: all of a vector are or none."""
        names = [self._row, self._column]
        found = self._mapping.guards(self._scope.thread, self._steps, names, 0, width - 1)
        return [
            substitute(condition, {self._column: start + lane})
            for condition in found
            if uses(condition, (self._column,))
        ]

    def _read_row(self, array: ir.Var, guards: list[ir.Expr]) -> S.Stmt:
        count = self._step.count
        width = self._left.width(self._step.k, count)
        k = tirx.Var("k", "int32")
        at = k * width if width > 1 else k
        values = {self._row: self._index[0], self._step.k: at}
        read = self._left.read(array, at, values, self._step.k, width)
        read = self._or_zero(read, guards, array, at, width)
        return self._unrolled(k, count // width, read)

    def _or_zero(self, read: S.Stmt, guards: list[ir.Expr], array: ir.Var, place: ir.Expr, width: int) -> S.Stmt:
        if not guards:
            return read
        return S.IfThenElse(conjunction(guards), read, _zeros(array, place, width), self._span)

    def _add(self, left: ir.Var, right: ir.Var, columns: int, place: Callable[..., Any]) -> S.Stmt:
        """All products of a row."""
        k, lane, at = tirx.Var("k", "int32"), tirx.Var("lane", "int32"), self._steps[1]
        one_lane: ir.Expr = lane if self._lanes > 1 else int32(0)
        classes = dict(zip(self._plan.classes, self._steps, strict=True))
        sums = self._scope.registers[self._step.sums.source].array
        register = self._scope.register(self._step.sums.source, classes, one_lane)
        a, b = self._left.value(left, k), self._right.value(right, place(k, at, one_lane))
        total = tirx.Add(tirx.BufferLoad(sums, [register]), tirx.Mul(a, b))
        body: S.Stmt = S.BufferStore(sums, total, [register], self._span)
        body = self._unrolled(lane, self._lanes, body)
        body = self._unrolled(at, columns, body)
        return self._unrolled(k, self._step.count, body)
