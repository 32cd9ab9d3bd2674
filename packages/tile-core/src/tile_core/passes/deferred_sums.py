"""Sums of rows that a loop only adds up are combined over the threads of a row once, behind the loop.

A loop that keeps running totals, `total = total · f + sum(tile)`, needs no whole row sum: each thread of a row may keep
a total of its own elements, as long as nothing in the loop reads it. That saves an exchange between threads in every
iteration, which in attention stands between the exponentials and the next product. Only the order of the additions
changes.

What must hold is found here, on nests and marked reductions. Nothing else reads the row sums or, inside of the loop,
the totals. And the factor is no infinity: a thread whose part is 0 would make NaN of it, where the whole is infinite.
It is absent, a number, or `exp((a - b) · c)` where b follows from a by maxima only, so that a ≤ b, or the factor is NaN
anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.ops.build import Cell
from tile_core.passes.nests import ParallelNest, is_parallel, is_reduction, marked_call, parallel_nest
from tile_core.passes.thread_combine import Combination, ThreadGroup
from tile_core.passes.thread_scope import ThreadScope, conjunction, int32, phase

_EXPONENTIALS = frozenset({"tirx.exp", "tirx.exp2"})
_CHOICES = frozenset({"prim.if_then_else", "tirx.if_then_else"})


@dataclass(frozen=True)
class DeferredSum:
    """In `loop`, `reduction` sums rows of `src` into `row`, which the loop only adds to `total`."""

    loop: S.For
    reduction: S.AttrStmt
    src: ir.Var
    row: ir.Var
    total: ir.Var
    factors: frozenset[ir.Var]


def deferred_sums(body: S.Stmt) -> list[DeferredSum]:
    """Those of a launch whose layouts are not decided yet."""
    found = []
    for loop in visit.collect(body, S.For):
        if loop.kind == S.ForKind.SERIAL:
            statements = flat(loop.body)
            sums = (_deferred(loop, statements, at) for at in range(len(statements)))
            found += [one for one in sums if one is not None and _is_read_behind_sums(one.row, body)]
    return found


def threads_of_a_row(scope: ThreadScope, one: DeferredSum) -> list[ThreadGroup]:
    """The groups of lanes over which a sum is combined; empty where each iteration had better combine it.

    All rows are held alike by registers of their own, and the threads that share one exchange by shuffles.
    """
    rows = [one.row, one.total, *one.factors]
    if one.src not in scope.registers or any(row not in scope.registers for row in rows):
        return []
    src, *held = (scope.registers[fragment].placement for fragment in (one.src, *rows))
    reduced = set(src.classes) - set(held[0].classes)
    if any(placement != held[0] for placement in held) or len(reduced) != 1 or _is_ragged(scope, one.row):
        return []
    threads = scope.plan.groups[one.src]
    groups = [ThreadGroup(count, stride, threads.used) for count, stride in threads.digits[reduced.pop()]]
    return groups if all(group.is_within(scope.warp) for group in groups) else []


def _is_ragged(scope: ThreadScope, row: ir.Var) -> bool:
    """Whether some registers hold no element."""
    placement = scope.registers[row].placement
    steps: list[ir.Expr] = [int32(0)] * len(placement.classes)
    index = placement.mapping.indices(scope.thread, steps)
    last = int32(placement.mapping.vector - 1)
    return bool(placement.mapping.guards(scope.thread, steps, index, int32(0), last))


def begin(scope: ThreadScope, total: ir.Var, groups: Sequence[ThreadGroup]) -> S.Stmt:
    """What was in the totals is the first thread's part of them, and the others begin with 0."""
    places = [tirx.floormod(tirx.floordiv(scope.thread, int32(group.stride)), int32(group.count)) for group in groups]
    first = conjunction([E.EQ(place, int32(0)) for place in places])
    zero = E.FloatImm(str(total.dtype), 0.0)
    return _each(scope, total, lambda value: ([], E.Select(first, value, zero)))


def end(scope: ThreadScope, total: ir.Var, groups: Sequence[ThreadGroup]) -> S.Stmt:
    """Every thread has the whole of its totals."""

    def whole(value: ir.Expr) -> tuple[list[S.Stmt], ir.Expr]:
        dtype = as_dtype(str(total.dtype))
        cell = Cell.new("part", dtype)
        combination = Combination(scope, cell, dtype.tvm, E.Add, E.FloatImm(dtype.tvm, 0.0))
        combined = [stmt for group in groups for stmt in combination.over(group)]
        return [cell.declare(), cell.set(value), *combined], cell.get()

    return _each(scope, total, whole)


def _each(scope: ThreadScope, total: ir.Var, make: Callable[[ir.Expr], tuple[list[S.Stmt], ir.Expr]]) -> S.Stmt:
    array, row = scope.registers[total].array, tirx.Var("row", "int32")
    before, value = make(tirx.BufferLoad(array, [row]))
    body = visit.sequence([*before, S.BufferStore(array, value, [row])])
    return phase(S.For(row, int32(0), array.shape[0], S.ForKind.UNROLLED, body))


def flat(stmt: S.Stmt) -> list[S.Stmt]:
    """The statements of nested sequences."""
    return [part for child in stmt.seq for part in flat(child)] if isinstance(stmt, S.SeqStmt) else [stmt]


def _deferred(loop: S.For, statements: Sequence[S.Stmt], at: int) -> DeferredSum | None:
    reduction = statements[at]
    if not _is_row_sum(reduction):
        return None
    call = marked_call(reduction)
    src, row = call.region("src").source, call.region("dst").source
    users = [place for place, stmt in enumerate(statements) if place != at and _mentions(stmt, row)]
    if len(users) != 1 or users[0] < at or (update := _update(statements[users[0]], row)) is None:
        return None
    nest, total, factor = update
    others = [stmt for place, stmt in enumerate(statements) if place != users[0]]
    if any(_mentions(stmt, total) for stmt in others) or not _is_bounded(factor, nest, statements[: users[0]]):
        return None
    read = () if factor is None else visit.collect(factor, ir.TensorLoad)
    return DeferredSum(loop, reduction, src, row, total, frozenset(load.source for load in read))


def _is_row_sum(stmt: S.Stmt) -> bool:
    if not is_reduction(stmt):
        return False
    call = marked_call(stmt)
    buffers = [call.region(side).source for side in ("src", "dst")]
    is_sum = str(call.attrs["kind"]) == "sum" and int(call.attrs.get("clear", 1)) == 1
    return is_sum and all(
        regions.scope(buffer) == regions.FRAGMENT and str(buffer.dtype) == "float32" for buffer in buffers
    )


def _mentions(stmt: S.Stmt, buffer: ir.Var) -> bool:
    """Whether a statement does something with a buffer; a mark that holds it in its place does not."""
    return buffer in visit.collect(stmt.body if isinstance(stmt, S.AttrStmt) else stmt, ir.Var)


def _is_read_behind_sums(row: ir.Var, body: S.Stmt) -> bool:
    """Whether what a statement of the launch reads of `row` is what one before it, in its sequence, has put there."""
    return all(
        _makes(last, row)
        for statements in _sequences(body)
        for last, stmt in _with_last(statements, row)
        if not _makes(stmt, row)
    )


def _sequences(stmt: S.Stmt) -> Iterator[list[S.Stmt]]:
    """Every sequence of statements that none of them is a part of a nest or a reduction."""
    statements = flat(stmt)
    yield statements
    for part in statements:
        if not is_parallel(part) and not is_reduction(part):
            for child in visit.children(part):
                yield from _sequences(child)


def _with_last(statements: Sequence[S.Stmt], row: ir.Var) -> Iterator[tuple[S.Stmt | None, S.Stmt]]:
    """The statements themselves, without what stands inside of others, that mention `row`, and the one before each."""
    last: S.Stmt | None = None
    for stmt in statements:
        is_leaf = is_parallel(stmt) or is_reduction(stmt) or not visit.children(stmt)
        if not isinstance(stmt, S.AllocBuffer) and is_leaf and _mentions(stmt, row):
            yield last, stmt
            last = stmt
        elif not is_leaf and _mentions(stmt, row):
            last = None


def _makes(stmt: S.Stmt | None, row: ir.Var) -> bool:
    """Whether a statement gives every element of `row` a value, whatever was there."""
    if stmt is None:
        return False
    if _is_row_sum(stmt):
        return marked_call(stmt).region("dst").source.same_as(row)
    assigned = _assigned(stmt)
    reads = visit.collect(stmt, ir.TensorLoad)
    return assigned is not None and assigned[1].same_as(row) and not any(load.source.same_as(row) for load in reads)


def _update(stmt: S.Stmt, row: ir.Var) -> tuple[ParallelNest, ir.Var, ir.Expr | None] | None:
    """The nest, the total and the factor of `total[i] = total[i] * factor + row[i]`; `None` for anything else."""
    assigned = _assigned(stmt)
    if assigned is None:
        return None
    nest, total, value = assigned
    if not isinstance(value, E.Add) or str(total.dtype) != "float32":
        return None
    sides = [value.a, value.b]
    added = [side for side in sides if _is_element(side, row, nest)]
    kept = [side for side in sides if not _is_element(side, row, nest)]
    if len(added) != 1 or len(kept) != 1:
        return None
    if _is_element(kept[0], total, nest):
        return nest, total, None
    if not isinstance(kept[0], E.Mul):
        return None
    parts = [kept[0].a, kept[0].b]
    factors = [part for part in parts if not _is_element(part, total, nest)]
    return (nest, total, factors[0]) if len(factors) == 1 else None


def _assigned(stmt: S.Stmt) -> tuple[ParallelNest, ir.Var, ir.Expr] | None:
    """A nest that gives every element of a row a value: the nest, the row and the value, its names replaced."""
    if not is_parallel(stmt):
        return None
    nest = parallel_nest(stmt)
    *binds, store = flat(nest.body)
    if len(nest.loops) != 1 or not isinstance(store, S.BufferStore) or len(store.indices) != 1:
        return None
    if not store.indices[0].same_as(nest.variables[0]) or regions.scope(store.buffer) != regions.FRAGMENT:
        return None
    whole = regions.constant(store.buffer.shape[0]) == nest.extents[0] and regions.constant(nest.loops[0].min) == 0
    if not whole or not all(isinstance(bind, S.Bind) for bind in binds):
        return None
    return nest, store.buffer, store.value


def _is_element(expr: ir.Expr, buffer: ir.Var, nest: ParallelNest) -> bool:
    """Whether `expr` is the element of `buffer` that an iteration of the nest works on."""
    if not isinstance(expr, ir.TensorLoad) or len(expr.indices) != 1:
        return False
    return expr.source.same_as(buffer) and expr.indices[0].same_as(nest.variables[0])


def _is_bounded(factor: ir.Expr | None, update: ParallelNest, earlier: Sequence[S.Stmt]) -> bool:
    """Whether a factor of the totals is no infinity."""
    if factor is None:
        return True
    if isinstance(factor, E.FloatImm):
        return isfinite(float(factor.value))
    if not isinstance(factor, ir.TensorLoad) or not _is_element(factor, factor.source, update):
        return False
    writers = [at for at, stmt in enumerate(earlier) if _mentions(stmt, factor.source)]
    assigned = _assigned(earlier[writers[-1]]) if writers else None
    if assigned is None or not assigned[1].same_as(factor.source):
        return False
    nest, _scale, value = assigned
    is_exponential = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")) in _EXPONENTIALS
    return is_exponential and _is_never_positive(value.args[0], nest, earlier[: writers[-1]])


def _is_never_positive(value: ir.Expr, nest: ParallelNest, earlier: Sequence[S.Stmt]) -> bool:
    """Whether `value` is at most 0, or NaN: `a - b`, `(a - b) * c` or `a * c - b * c` with a ≤ b and c not negative."""
    if isinstance(value, E.Mul) and _is_positive(value.b):
        value = value.a
    if not isinstance(value, E.Sub):
        return False
    low, high = value.a, value.b
    if isinstance(low, E.Mul) and isinstance(high, E.Mul) and _is_positive(low.b) and _is_positive(high.b):
        if float(low.b.value) != float(high.b.value):
            return False
        low, high = low.a, high.a
    if not isinstance(low, ir.TensorLoad) or not isinstance(high, ir.TensorLoad):
        return False
    are_elements = _is_element(low, low.source, nest) and _is_element(high, high.source, nest)
    return are_elements and _is_at_most(low.source, high.source, earlier)


def _is_positive(value: ir.Expr) -> bool:
    return isinstance(value, E.FloatImm) and 0 < float(value.value) < float("inf")


def _is_at_most(low: ir.Var, high: ir.Var, statements: Sequence[S.Stmt]) -> bool:
    """Whether behind the statements every element of `low` is at most that of `high`, or one of them NaN."""
    holds = False
    for stmt in statements:
        holds = _still_at_most(low, high, stmt, holds)
    return holds


def _still_at_most(low: ir.Var, high: ir.Var, stmt: S.Stmt, holds: bool) -> bool:
    if is_reduction(stmt):
        call = marked_call(stmt)
        grows = str(call.attrs["kind"]) == "max" and not int(call.attrs.get("clear", 1))
        result = call.region("dst").source
        return holds and not result.same_as(low) and (grows or not result.same_as(high))
    assigned = _assigned(stmt)
    if assigned is None or not (assigned[1].same_as(low) or assigned[1].same_as(high)):
        return holds and not (_may_write(stmt, low) or _may_write(stmt, high))
    nest, written, value = assigned
    other = high if written.same_as(low) else low
    if _is_element(value, other, nest):
        return True
    chosen = _chosen(value)
    if written.same_as(low) or not chosen:
        return False
    return holds and all(_is_element(one, low, nest) or _is_element(one, high, nest) for one in chosen)


def _chosen(value: ir.Expr) -> list[ir.Expr]:
    """The values between which an expression chooses; none where it does something else."""
    if isinstance(value, E.Select):
        return [value.true_value, value.false_value]
    is_choice = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")) in _CHOICES
    return list(value.args[1:]) if is_choice else []


def _may_write(stmt: S.Stmt, buffer: ir.Var) -> bool:
    stores = any(store.buffer.same_as(buffer) for store in visit.collect(stmt, S.BufferStore))
    named = any(region.source.same_as(buffer) for region in visit.collect(stmt, ir.TensorRegion))
    addresses = (
        call for call in visit.collect(stmt, ir.Call) if str(getattr(call.op, "name", "")) == "tirx.address_of"
    )
    return stores or named or any(buffer in visit.collect(call, ir.Var) for call in addresses)
