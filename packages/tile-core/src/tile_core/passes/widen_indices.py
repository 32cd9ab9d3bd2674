"""Compute the indices of very long axes in 64 bits.

Index arithmetic is int32 unless the author says otherwise. Where an axis is, or may be, so long that an index of it
does not fit, or that the block just beyond its end does not, the whole index expression is computed in int64 from its
variables on: a cast of the int32 result would come too late. The same holds for an index with a huge constant or a
shift, which may leave int32 and the tensor at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import reads_memory

_BITWISE = (E.BitwiseAnd, E.BitwiseOr, E.BitwiseXor)
_ARITHMETIC = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max)


@dataclass(frozen=True)
class WidenIndices:
    """`limit` is the extent up to which an axis is indexed in int32; it leaves room for the tiles beyond the end."""

    limit: int = 2**30
    name: ClassVar[str] = "widen_indices"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        widener = _Widener(self.limit)
        return visit.mutate(func, (S.Bind, widener.bind), (S.BufferStore, widener.store), (ir.TensorLoad, widener.load))


class _Widener:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[ir.Var, ir.Expr] = {}

    def bind(self, bind: S.Bind, mutator: Any) -> S.Stmt:
        bind = mutator.default_mutate(bind)
        if not reads_memory(bind.value):
            self._values[bind.var] = bind.value
        return bind

    def store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        store = mutator.default_mutate(store)
        return rebuild.store(store, indices=self._indices(store.buffer, store.indices))

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        load = mutator.default_mutate(load)
        return tirx.BufferLoad(load.source, self._indices(load.source, load.indices), load.span)

    def _indices(self, buffer: ir.Var, indices: Any) -> list[ir.Expr]:
        pairs = zip(indices, buffer.shape, strict=True)
        return [
            self._wide(index) if self._is_long(extent) or self._is_steep(index) else index for index, extent in pairs
        ]

    def _is_steep(self, index: ir.Expr) -> bool:
        """Whether an index holds a huge constant or a shift, so that it may leave int32 however short the axis."""
        if isinstance(index, E.IntImm):
            return abs(int(index.value)) > self._limit
        if isinstance(index, ir.Var) and index in self._values:
            return self._is_steep(self._values[index])
        if isinstance(index, (*_ARITHMETIC, *_BITWISE)):
            return self._is_steep(index.a) or self._is_steep(index.b)
        return isinstance(index, E.LShift)

    def _is_long(self, extent: ir.Expr) -> bool:
        size = constant(extent)
        return str(extent.ty.dtype) == "int64" if size is None else size > self._limit

    def _wide(self, index: ir.Expr) -> ir.Expr:
        """`index` in int64, exactly."""
        if str(index.ty.dtype) != "int32":
            return index
        if isinstance(index, E.IntImm):
            return E.IntImm("int64", index.value)
        if isinstance(index, (*_ARITHMETIC, *_BITWISE, E.LShift)):
            return type(index)(self._wide(index.a), self._wide(index.b))
        if isinstance(index, ir.Var) and index in self._values:
            value = self._values[index]
            if isinstance(value, (*_ARITHMETIC, *_BITWISE, E.LShift)):
                return self._wide(value)
        return E.Cast("int64", index)
