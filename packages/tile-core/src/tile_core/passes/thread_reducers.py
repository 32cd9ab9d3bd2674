"""Reducers of a block that has threads: each thread keeps a partial result of every element.

A contribution is made by the thread that runs its iteration. The start value takes part once: the first thread begins
with it, every other one with the identity. `reducer_finalize` combines the partial results over the block, after which
every thread holds the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import visit
from tile_core.ir.regions import REDUCER, constant, scope
from tile_core.ops.build import Cell, cast
from tile_core.ops.reduce import KINDS
from tile_core.ops.reducer import combined, identity
from tile_core.passes.thread_combine import Combination, ThreadGroup
from tile_core.passes.thread_scope import ThreadScope, int32, phase

REDUCER_INIT = "tile.thread_reducer_init"
REDUCER_FINALIZE = "tile.thread_reducer_finalize"


def is_reducer(buffer: ir.Var) -> bool:
    """Whether a buffer is a reducer."""
    return scope(buffer) == REDUCER


def reducer_statement(threads: ThreadScope, stmt: S.Stmt) -> S.Stmt | None:
    """The statements for an init or a finalisation that `passes/threads.py` kept; `None` for anything else."""
    call = stmt.value if isinstance(stmt, S.Evaluate) else None
    name = str(call.op.name) if isinstance(call, ir.Call) and isinstance(call.op, ir.Op) else ""
    if name == REDUCER_INIT:
        return _init(threads, call, stmt.span)
    return _finalize(threads, call, stmt.span) if name == REDUCER_FINALIZE else None


def _each(call: Any, body: Callable[[ir.Var, list[ir.Expr]], S.Stmt], span: Any) -> S.Stmt:
    """A loop over the elements of the call's region."""
    region = call.args[0]
    extents = [_constant(axis.extent) for axis in region.region]
    flat, rest = tirx.Var("element", "int32"), prod(extents)
    index: list[ir.Expr] = []
    for axis, extent in zip(region.region, extents, strict=True):
        rest //= max(extent, 1)
        index.append(axis.min + tirx.floormod(tirx.floordiv(flat, int32(max(rest, 1))), int32(max(extent, 1))))
    return S.For(flat, int32(0), int32(prod(extents)), S.ForKind.SERIAL, body(region.source, index), span=span)


def _constant(extent: ir.Expr) -> int:
    value = constant(extent)
    assert value is not None
    return value


def _init(threads: ThreadScope, call: Any, span: Any) -> S.Stmt:
    dtype, kind = as_dtype(str(call.args[0].source.dtype)), str(call.attrs["kind"])
    first = E.EQ(threads.thread, int32(0))
    start = tirx.if_then_else(first, cast(call.args[1], dtype), identity(kind, dtype))
    return phase(_each(call, lambda buffer, index: S.BufferStore(buffer, start, index, span), span))


def _finalize(threads: ThreadScope, call: Any, span: Any) -> S.Stmt:
    dtype, kind = as_dtype(str(call.args[0].source.dtype)), str(call.attrs["kind"])
    assert kind in KINDS
    cell = Cell.new("partial", dtype)
    combination = Combination(
        threads, cell, dtype.tvm, lambda a, b: combined(kind, a, b, dtype), identity(kind, dtype), span
    )

    def element(buffer: ir.Var, index: list[ir.Expr]) -> S.Stmt:
        return visit.sequence(
            [
                cell.declare(span),
                cell.set(tirx.BufferLoad(buffer, index), span),
                *combination.over(ThreadGroup(threads.block, 1, threads.block)),
                S.BufferStore(buffer, cell.get(), index, span),
            ],
            span,
        )

    return _each(call, element, span)
