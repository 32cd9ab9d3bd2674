"""Perfect nests of independent loops, and which of their axes is worth running in vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import constant
from tile_core.ir.visit import collect, mutate, sequence
from tile_cpu.passes.affine import affine, dtype_of

_SHORT = 32
"""Nodes of index arithmetic that is written out for its name."""


@dataclass(frozen=True)
class Axis:
    """One loop of a nest."""

    var: ir.Var
    low: ir.Expr
    extent: ir.Expr
    span: ir.Span | None


@dataclass(frozen=True)
class Nest:
    """A perfect nest, outermost axis first, and its body.

    `independent` says that the iterations may run at once: by contract for `T.Parallel`; for a `T.vectorized` loop
    where no iteration loads what another one stores.
    """

    axes: tuple[Axis, ...]
    body: S.Stmt
    span: ir.Span | None
    independent: bool = True


def nest_of(loop: S.For) -> Nest:
    """The nest that `loop` opens: as many loops as its annotation says, one where it has none."""
    rank = int(loop.annotations[PARALLEL]) if PARALLEL in loop.annotations else 1
    axes: list[Axis] = []
    body: S.Stmt = loop
    for _ in range(rank):
        assert isinstance(body, S.For)
        axes.append(Axis(body.loop_var, body.min, body.extent, body.span))
        body = body.body
    return Nest(tuple(axes), body, loop.span, PARALLEL in loop.annotations or not _carries(body))


def without_names(nest: Nest) -> Nest:
    """The nest with the names of index arithmetic replaced by it, so that accesses show how they depend on the loops.

    Names of long expressions stay: names of names could grow without bound.
    """
    names: dict[ir.Var, ir.Expr] = {}

    def bind(stmt: S.Bind, mutator: Any) -> S.Stmt:
        value = mutator.mutate(stmt.value)
        if not _is_index_arithmetic(value):
            return S.Bind(stmt.var, value, stmt.span)
        names[stmt.var] = value
        return sequence([], stmt.span)

    body = mutate(nest.body, (S.Bind, bind), (ir.Var, lambda var, mutator: names.get(var, var)))
    return replace(nest, body=body)


def _is_index_arithmetic(value: ir.Expr) -> bool:
    """Whether an integer is computed from names and constants by a few sums and products."""
    nodes = 0
    pending = [value]
    while pending:
        node = pending.pop()
        nodes += 1
        if isinstance(node, tirx.Add | tirx.Sub | tirx.Mul):
            pending += [node.a, node.b]
        elif not isinstance(node, ir.Var | tirx.IntImm):
            return False
    return nodes <= _SHORT and dtype_of(value).startswith("int")


def _carries(body: S.Stmt) -> bool:
    """Whether the body loads elements of a buffer that it stores to under other indices."""
    stores = collect(body, S.BufferStore)
    return any(
        load.source.same_as(store.buffer)
        and not all(tvm_ffi.structural_equal(a, b) for a, b in zip(load.indices, store.indices, strict=True))
        for store in stores
        for load in collect(body, ir.TensorLoad)
    )


def candidates(nest: Nest) -> list[Axis]:
    """The axes by how well they suit vectors, best first; an axis along which some store stays put is left out.

    The bounds of a candidate do not depend on another axis: it is moved innermost.
    """
    variables = {axis.var for axis in nest.axes}
    scored = []
    for depth, axis in enumerate(nest.axes):
        bounds = [*collect(axis.extent, ir.Var), *collect(axis.low, ir.Var)]
        if constant(axis.extent) == 1 or any(var in variables for var in bounds):
            continue
        score = _score(nest.body, axis.var)
        if score is not None:
            scored.append((score, depth, axis))
    return [axis for _, _, axis in sorted(scored, key=lambda entry: entry[:2], reverse=True)]


def _score(body: S.Stmt, var: ir.Var) -> int | None:
    """Consecutive accesses less four times the scattered ones; `None` where a store of the body ignores `var`."""
    local = {alloc.buffer for alloc in collect(body, S.AllocBuffer)}
    score = 0
    for store in collect(body, S.BufferStore):
        if store.buffer in local:
            continue
        step = _step(store.buffer, store.indices, var)
        if step == 0:
            return None
        score += 2 if step == 1 else -8
    for load in collect(body, ir.TensorLoad):
        step = 0 if load.source in local else _step(load.source, load.indices, var)
        score += {0: 0, 1: 1}.get(step if step is not None else 2, -4)
    return score


def _step(buffer: ir.Var, indices: list[ir.Expr], var: ir.Var) -> int | None:
    """Elements between the addresses of two neighbouring iterations; `None` where that varies."""
    total = 0
    strides = list(buffer.ty.strides)
    stride: int | None = 1
    for axis in reversed(range(len(indices))):
        if strides:
            stride = constant(strides[axis])
        function = affine(indices[axis], var)
        if function is None:
            return None
        if function.coefficient:
            if stride is None:
                return None
            total += function.coefficient * stride
        extent = constant(buffer.shape[axis])
        stride = stride * extent if stride is not None and extent is not None else None
    return total


def element_bits(nest: Nest) -> int:
    """Bits of the widest element that the body moves or computes with."""
    return max((_bits(dtype) for dtype in _element_dtypes(nest.body)), default=32)


def _element_dtypes(body: S.Stmt) -> Iterator[str]:
    computing = _computes(body)
    for store in collect(body, S.BufferStore):
        yield str(store.buffer.dtype)
        # Index arithmetic does not count, a converted value does.
        yield from (dtype_of(cast) for cast in collect(store.value, tirx.Cast))
    for load in collect(body, ir.TensorLoad):
        yield str(load.source.dtype)
    for bind in collect(body, S.Bind):
        yield dtype_of(bind.value)
    if computing:
        yield "float32"


def _computes(body: S.Stmt) -> bool:
    """Whether narrow floats are computed with, which happens in float32."""
    return any(
        dtype_of(node).startswith(("float", "bfloat"))
        for kind in (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, ir.Call)
        for node in collect(body, kind)
        if isinstance(node.ty, ir.PrimType)
    )


def _bits(dtype: str) -> int:
    return 8 if dtype == "bool" else int(ir.PrimType(dtype).dtype.bits)
