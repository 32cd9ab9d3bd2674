"""Launches that only multiply tiles of tensors are programs of the Cube unit.

Such a launch brings tiles of tensors, multiplies them into accumulators, and takes these to a tensor: the tiles lie in
L1, the accumulators in L0C, and no thread takes part. Anything else, such as work on an accumulator, leaves all of the
launch to the vector unit, where products are loops.

The unit computes on whole fractals of 16 rows by 32 bytes, so the extents of a product are multiples of those, and
boxes lie within their tensors. An accumulator has no value before its first product, which begins it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_ascend.passes.engine_copies import box, inside
from tile_ascend.passes.segments import flat
from tile_core.dtypes import as_dtype
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.ir.regions import constant
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.copy import is_by_threads
from tile_core.ops.threads import THREAD_PREFIX
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import ACCESS
from tile_core.passes.ranges import Ranges, reads_memory

LOAD, PRODUCT, STORE, BEGIN = (f"{THREAD_PREFIX}cube_{name}" for name in ("load", "product", "store", "begin"))
ROWS, COLUMN_BYTES = 16, 32
_ALIGNMENT = 512
_MOST = 4095
# Operands and accumulator of a product, and what an accumulator is stored as.
_PRODUCTS = {("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")}
_STORED = {("float32", "float32"), ("float32", "float16"), ("int32", "int32")}


class _UnsuitedError(Exception):
    """A launch is no program of the Cube unit."""


@dataclass(frozen=True)
class UseCube:
    """Leaves the number of products by the Cube unit in the report as `cube_products`."""

    name: ClassVar[str] = "use_cube"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        count = 0

        def launch(loop: S.For, mutator: Any) -> S.Stmt:
            nonlocal count
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            opened = launch_ir.from_stmt(loop)
            program = _Program(func, context.capabilities)
            try:
                body = program.body(opened)
            except _UnsuitedError:
                return loop
            count += program.products
            return replace(opened, body=body).to_stmt()

        body = visit.mutate(func.body, (S.For, launch))
        context.report["cube_products"] = count
        return func.with_body(body, func.span)


@dataclass
class _Tile:
    """A tile of L1 or an accumulator: where it lies, and whether a product has begun it, or may."""

    offset: int
    begun: bool = False
    ready: bool = False


@dataclass
class _Program:
    """Rewrites a launch for the Cube unit, or raises `_UnsuitedError`."""

    func: tirx.PrimFunc
    facts: Any
    products: int = 0
    tiles: dict[ir.Var, _Tile] = field(default_factory=dict)
    loaded: set[ir.Var] = field(default_factory=set)
    stored: set[ir.Var] = field(default_factory=set)
    used: dict[str, int] = field(default_factory=lambda: {"l1": 0, "l0c": 0})

    def body(self, launch: launch_ir.Launch) -> S.Stmt:
        """The body, if all of it is for the unit."""
        self._ranges = Ranges(self.func)
        for var, extent in zip(launch.grid_vars, launch.grid_extents, strict=True):
            self._ranges.analyzer.bind(var, ir.Range.from_min_extent(tirx.IntImm(var.ty, 0), extent))
        if any(var in launch.thread_vars for var in visit.collect(launch.body, ir.Var)):
            raise _UnsuitedError
        made = visit.sequence(self._steps([launch.body]), launch.body.span)
        fits = all(used <= self.facts.fact(f"{memory}_bytes") for memory, used in self.used.items())
        if not self.products or not fits or self.loaded & self.stored:
            raise _UnsuitedError
        return made

    def _steps(self, stmts: Sequence[S.Stmt]) -> list[S.Stmt]:
        return [made for stmt in flat(stmts) for made in self._step(stmt)]

    def _step(self, stmt: Any) -> list[S.Stmt]:
        if isinstance(stmt, S.AllocBuffer):
            self._allocate(stmt.buffer)
            return []
        if isinstance(stmt, S.Bind) and not reads_memory(stmt.value):
            self._ranges.bind(stmt)
            return [stmt]
        if isinstance(stmt, S.For) and stmt.kind == S.ForKind.SERIAL and (constant(stmt.extent) or 0) >= 1:
            self._ranges.enter_loop(stmt)
            return [rebuild.loop(stmt, body=visit.sequence(self._steps([stmt.body]), stmt.span))]
        handlers = {"tile.copy": self._copy, "tile.fill": self._fill, "tile.gemm": self._gemm}
        name = op_name(stmt)
        if name not in handlers:
            raise _UnsuitedError
        return [handlers[name](view(stmt, OPS))]

    def _allocate(self, buffer: ir.Var) -> None:
        scope = regions.scope(buffer)
        extents = [constant(extent) for extent in buffer.shape]
        if scope not in (*regions.SHARED, regions.FRAGMENT) or None in extents or len(buffer.ty.strides):
            raise _UnsuitedError
        place = "l0c" if scope == regions.FRAGMENT else "l1"
        size = prod(extent or 0 for extent in extents) * int(buffer.dtype.bits) // 8
        self.tiles[buffer] = _Tile(self.used[place])
        self.used[place] += -(-size // _ALIGNMENT) * _ALIGNMENT

    def _matrix(self, call: OpCall, operand: str, scopes: tuple[str, ...]) -> tuple[_Tile, int, int]:
        """A whole tile of two axes with its rows and columns."""
        region = call.region(operand)
        tile = Tile(region)
        if tile.scope not in scopes or tile.buffer not in self.tiles or not regions.is_whole(region) or tile.rank != 2:
            raise _UnsuitedError
        rows, columns = (constant(extent) or 0 for extent in tile.extents)
        itemsize = int(tile.buffer.dtype.bits) // 8
        fractal = ROWS if tile.scope == regions.FRAGMENT else COLUMN_BYTES // itemsize
        if rows % ROWS or columns % fractal or not 0 < rows <= _MOST or not 0 < columns <= _MOST:
            raise _UnsuitedError
        return self.tiles[tile.buffer], rows, columns

    def _copy(self, call: OpCall) -> S.Stmt:
        src, dst = Tile(call.region("src")), Tile(call.region("dst"))
        loads = src.scope == regions.GLOBAL
        tensor, tile = (src, dst) if loads else (dst, src)
        if is_by_threads(call) or tensor.scope != regions.GLOBAL:
            raise _UnsuitedError
        found, rows, columns = self._matrix(
            call, "dst" if loads else "src", regions.SHARED if loads else (regions.FRAGMENT,)
        )
        shape = box(tensor, tile)
        if shape is None or shape[1:] != (rows, columns) or not all(map(self._ranges.proves, inside(tensor))):
            raise _UnsuitedError
        dtypes = (str(src.buffer.dtype), str(dst.buffer.dtype))
        if (dtypes[0] != dtypes[1]) if loads else (dtypes not in _STORED or not found.begun):
            raise _UnsuitedError
        address = tirx.address_of(tirx.BufferLoad(tensor.buffer, [axis.min for axis in tensor.region.region]))
        attrs = {
            "offset": found.offset,
            "rows": rows,
            "columns": columns,
            "stride": shape[0],
            ACCESS: "r" if loads else "w",
        }
        (self.loaded if loads else self.stored).add(tensor.buffer)
        found.ready = found.ready or loads
        return _called(LOAD if loads else STORE, [address], {**attrs, "dtype": dtypes[0]}, call)

    def _fill(self, call: OpCall) -> S.Stmt:
        found, _rows, _columns = self._matrix(call, "dst", (regions.FRAGMENT,))
        if not _is_zero(call.args["value"]):
            raise _UnsuitedError
        found.ready, found.begun = True, False
        return _called(BEGIN, [], {"offset": found.offset}, call)

    def _gemm(self, call: OpCall) -> S.Stmt:
        (a, *shape), (b, *_shape) = (self._matrix(call, side, regions.SHARED) for side in ("a", "b"))
        c, m, n = self._matrix(call, "c", (regions.FRAGMENT,))
        transposes = tuple(bool(call.attrs.get(f"transpose_{side}", 0)) for side in ("a", "b"))
        k = shape[0] if transposes[0] else shape[1]
        dtypes = [str(call.region(side).source.dtype) for side in ("a", "b", "c")]
        clear = constant(call.args["clear_accum"])
        known = {"transpose_a", "transpose_b", "policy"} >= {str(key) for key in call.attrs}
        if dtypes[0] != dtypes[1] or (dtypes[0], dtypes[2]) not in _PRODUCTS or clear is None or not known:
            raise _UnsuitedError
        # A fractal of bytes is not square: only those of 16 bits are transposed on their way.
        if dtypes[0] == "int8" and transposes != (False, True):
            raise _UnsuitedError
        if not (a.ready and b.ready and (c.ready or c.begun or clear)):
            raise _UnsuitedError
        c.ready, c.begun = False, True
        self.products += 1
        attrs: dict[str, Any] = {"a": a.offset, "b": b.offset, "c": c.offset, "m": m, "n": n, "k": k, "clear": clear}
        attrs |= {"step": self._step_of_k(m, n, k, dtypes[0]), "dtype": dtypes[0]}
        attrs |= {"transpose_a": int(transposes[0]), "transpose_b": int(transposes[1])}
        return _called(PRODUCT, [], attrs, call)

    def _step_of_k(self, m: int, n: int, k: int, dtype: str) -> int:
        """The most of K for which both operands fit into L0A and L0B, a divisor of it in whole fractals."""
        itemsize = as_dtype(dtype).itemsize
        unit = max(ROWS, COLUMN_BYTES // itemsize)
        most = min(self.facts.fact("l0a_bytes") // m, self.facts.fact("l0b_bytes") // n) // itemsize
        fitting = [step for step in range(unit, k + 1, unit) if k % step == 0 and step <= most]
        if not fitting:
            raise _UnsuitedError
        return max(fitting)


def _is_zero(value: ir.Expr) -> bool:
    return isinstance(value, tirx.IntImm | tirx.FloatImm) and value.value == 0


def _called(name: str, args: list[ir.Expr], attrs: dict[str, Any], call: OpCall) -> S.Stmt:
    made = ir.Call(tile_op(name), args, attrs=attrs, ret_ty="void", span=call.span)
    return S.Evaluate(made, call.span)
