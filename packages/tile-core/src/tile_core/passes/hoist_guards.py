"""Work that is seldom done costs one branch, not one for each of its rows.

A nest whose statements all stand under a condition of the row, such as "this row's maximum has grown", is unrolled over
the registers of a thread, and each row becomes a branch of its own around the work on its columns. Where a thread has
few rows, one branch around all of it asks first whether any of them needs anything.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.passes.accesses import substitute
from tile_core.passes.thread_scope import int32

MOST_ROWS, LEAST_COLUMNS = 4, 8
"""Conditions that are asked at once, and iterations under each that make it worth while."""


def with_hoisted_guard(nest: S.Stmt) -> S.Stmt:
    """A thread's loops, under one condition more where all they do stands under one that few of them change."""
    loops, guard = _descend(nest)
    if guard is None or guard.else_case is not None or not _is_still(guard):
        return nest
    used = set(visit.collect(guard.condition, ir.Var))
    rows = [loop for loop in loops if loop.loop_var in used]
    counts = {loop.loop_var: regions.constant(loop.extent) or 0 for loop in loops}
    ways = prod(counts[loop.loop_var] for loop in rows)
    defined = {bind.var for bind in visit.collect(nest, S.Bind)}
    if used & defined or not 0 < ways <= MOST_ROWS or prod(counts.values()) < ways * LEAST_COLUMNS:
        return nest
    places = product(*(range(counts[loop.loop_var]) for loop in rows))
    values = ({loop.loop_var: int32(at) for loop, at in zip(rows, place, strict=True)} for place in places)
    asked = [substitute(guard.condition, value) for value in values]
    if _only_scales(guard):
        nest = visit.mutate(nest, (S.IfThenElse, lambda node, _mutator: node.then_case))
    return S.IfThenElse(reduce(E.Or, asked), nest, None, nest.span)


def _only_scales(guard: S.IfThenElse) -> bool:
    """Whether a branch is `if f != 1: x = x * f`: where the condition does not hold, its work changes nothing."""
    condition, store = guard.condition, guard.then_case
    if not isinstance(condition, E.NE) or not isinstance(store, S.BufferStore) or not isinstance(store.value, E.Mul):
        return False
    is_one = isinstance(condition.b, E.FloatImm) and float(condition.b.value) == 1
    kept = tirx.BufferLoad(store.buffer, list(store.indices))
    product = (store.value.a, store.value.b), (store.value.b, store.value.a)
    same = tvm_ffi.structural_equal
    return is_one and any(same(x, kept) and same(factor, condition.a) for x, factor in product)


def _descend(nest: S.Stmt) -> tuple[list[S.For], S.IfThenElse | None]:
    """The unrolled loops around the one statement that a nest comes to, if that is a branch."""
    loops: list[S.For] = []
    stmt = nest
    while True:
        if isinstance(stmt, S.SeqStmt):
            *names, stmt = stmt.seq
            if not all(isinstance(name, S.Bind) for name in names):
                return loops, None
        elif isinstance(stmt, S.For) and stmt.kind == S.ForKind.UNROLLED and regions.constant(stmt.min) == 0:
            loops.append(stmt)
            stmt = stmt.body
        else:
            return loops, stmt if isinstance(stmt, S.IfThenElse) else None


def _is_still(guard: S.IfThenElse) -> bool:
    """Whether what a condition reads are registers that the work under it leaves as they are, and nothing else."""
    read = {load.source for load in visit.collect(guard.condition, ir.TensorLoad)}
    stored = {store.buffer for store in visit.collect(guard.then_case, S.BufferStore)}
    registers = all(regions.scope(buffer) == regions.LOCAL for buffer in read)
    return bool(read) and registers and not read & stored and not visit.collect(guard, ir.Call)
