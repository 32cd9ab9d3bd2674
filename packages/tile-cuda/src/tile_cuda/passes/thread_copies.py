"""Copies of pipelined loops that the block's own threads make ahead of time (`cp.async`).

A thread moves 16 bytes at a time, or 8 or 4 where rows begin at odd places; what lies beyond the tensor becomes zeros,
inside a unit by the count of bytes that are read, and as a whole by a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ops.build import number
from tile_core.passes.accesses import strides, substitute
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.cp_async import WIDTHS, cp_async
from tile_cuda.passes.tensor_copies import TensorCopy


def linear_thread(launch: launch_ir.Launch) -> ir.Expr:
    """The number of a thread in its block."""
    x, y, z = launch.thread_vars
    nx, ny, _nz = launch.threads
    return x if launch.threads[1:] == (1, 1) else (z * ny + y) * nx + x


def width_of(copy: TensorCopy, starts: Sequence[ir.Expr]) -> int | None:
    """Bytes of a unit of `copy`, whose region begins at `starts`: all that is known of its places divides by it.

    Strides that only the running program knows are taken for multiples of 16 bytes, as `unknown_strides` asks.
    """
    facts = Analyzer().modular_set(starts[copy.axes[1]])
    known = [copy.columns * copy.itemsize]
    known += [int(facts.coeff) * copy.itemsize, int(facts.base) * copy.itemsize]
    for stride in list(strides(copy.tensor))[:-1]:
        value = regions.constant(stride)
        known += [] if value is None else [value * copy.itemsize]
    fitting = [width for width in WIDTHS if width >= copy.itemsize and all(value % width == 0 for value in known)]
    return max(fitting, default=None)


def unknown_strides(copy: TensorCopy) -> list[ir.Expr]:
    """Byte strides that only the running program knows."""
    return [stride for stride in copy.byte_strides() if regions.constant(stride) is None]


def resolved(copy: TensorCopy, names: Mapping[ir.Var, ir.Expr]) -> list[ir.Expr]:
    """Where the copied region begins, without the names that the loop's body binds."""
    starts = [axis.min for axis in copy.source.region]
    for _step in names:
        starts = [substitute(start, dict(names)) for start in starts]
    return starts


@dataclass(frozen=True)
class ThreadCopies:
    """One copy of a loop as the threads of `launch` make it, `width` bytes at a time.

    `starts` is where the region begins, in terms of the loop's variable.
    """

    copy: TensorCopy
    starts: tuple[ir.Expr, ...]
    width: int
    launch: launch_ir.Launch

    def statements(self, tile: ir.Var, stage: ir.Expr, values: dict[ir.Var, ir.Expr]) -> S.Stmt:
        """Fill `stage` of `tile`, the loop's variable being what `values` says."""
        units = self.copy.rows * self._per_row
        threads = prod(self.launch.threads)
        turn, thread = tirx.Var("turn", "int32"), linear_thread(self.launch)
        unit = thread + turn * threads
        row, column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
        body: S.Stmt = visit.sequence(
            [
                S.Bind(row, tirx.floordiv(unit, int32(self._per_row))),
                S.Bind(column, tirx.floormod(unit, int32(self._per_row)) * self._elements),
                self._unit(tile, stage, row, column, values),
            ]
        )
        if units % threads:
            body = S.IfThenElse(E.LT(unit, int32(units)), body, None)
        return S.For(turn, int32(0), int32(-(-units // threads)), S.ForKind.UNROLLED, body, span=self.copy.call.span)

    @property
    def _elements(self) -> int:
        return self.width // self.copy.itemsize

    @property
    def _per_row(self) -> int:
        return self.copy.columns // self._elements

    def _unit(
        self, tile: ir.Var, stage: ir.Expr, row: ir.Expr, column: ir.Expr, values: dict[ir.Var, ir.Expr]
    ) -> S.Stmt:
        copy, tensor = self.copy, self.copy.tensor
        moved = {copy.axes[0]: row, copy.axes[1]: column}
        place: list[ir.Expr] = []
        for axis, start in enumerate(self.starts):
            begin = substitute(start, values)
            place.append(begin + _as(moved[axis], begin) if axis in moved else begin)
        inner = tensor.shape[-1]
        left = E.Sub(_wide(inner, place[-1]), _wide(place[-1], inner))
        bytes_read = E.Min(left, E.IntImm(left.ty, self._elements)) * copy.itemsize
        read = tirx.Var("read", "int32")
        target = tirx.address_of(tirx.BufferLoad(tile, [stage, row, column]))
        source = tirx.address_of(tirx.BufferLoad(tensor, place))
        load = cp_async(target, source, read, width=self.width)
        inside = [part for index, extent in zip(place, tensor.shape, strict=True) for part in _in(index, extent)]
        zero = number(0, as_dtype(str(tile.dtype)))
        element = tirx.Var("element", "int32")
        store = S.BufferStore(tile, zero, [stage, row, column + element])
        zeros = S.For(element, int32(0), int32(self._elements), S.ForKind.UNROLLED, store)
        counted = S.Bind(read, _int32(bytes_read))
        return S.IfThenElse(reduce(E.And, inside), visit.sequence([counted, S.Evaluate(load, copy.call.span)]), zeros)


def _in(index: ir.Expr, extent: ir.Expr) -> list[ir.Expr]:
    own = E.GE(index, E.IntImm(index.ty, 0))
    return [own, E.LT(_wide(index, extent), _wide(extent, index))]


def _wide(value: ir.Expr, other: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == str(other.ty.dtype) else value.astype("int64")


def _int32(value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == "int32" else value.astype("int32")


def _as(value: ir.Expr, like: ir.Expr) -> ir.Expr:
    return value if str(like.ty.dtype) == "int32" else value.astype(str(like.ty.dtype))
