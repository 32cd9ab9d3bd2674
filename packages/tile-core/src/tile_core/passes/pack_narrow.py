"""Tensors and tiles of four and six bits become bytes, before anything else looks at the program.

    int4 A[m, n]                    ──▶  uint8 A[m, n // 2], the first value of a byte in its low half
    tile.copy(A[i:, j:], a)         ──▶  the copy of half as many bytes, where it begins and ends with a byte
    ... A[i, j] ...                 ──▶  half of A[i, j // 2], as a value of its carrier (`carried_types.py`)
    for j: a[i, j] = value          ──▶  for j / 2: a[i, j] = a byte of two values (`paired_stores.py`)
    tile.gemm(a, b, c)              ──▶  the product of bytes, marked, where instructions take them; else that of tiles
                                         that hold the values in a dtype which has a product

A float of six bits has a byte for itself. Where instructions multiply floats of six and four bits, in the form of
`coded_tiles.py`, the products name the types of the codes.

So vectors, copy engines, swizzles and pipelines know bytes only. A store of one value beside another of its byte, which
another thread may write, replaces its half atomically. Callers still pass what they passed: `name_parameters` gives the
host half the tensors under their own dtype, and the kernels their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import DType, casts
from tile_core.errors.layouts import LayoutError
from tile_core.errors.passes import DataTypeUnsupportedError
from tile_core.ir import nibbles, regions, visit
from tile_core.ir.launch import from_stmt, is_launch
from tile_core.ir.marks import SAFE_VALUE
from tile_core.ir.ops import tile_op
from tile_core.ir.spans import from_tvm
from tile_core.ops import OPS
from tile_core.ops.atomic import address, rmw
from tile_core.ops.base import LowerContext, OpCall, op_name, view
from tile_core.ops.build import Tile, cast
from tile_core.ops.fill import FILL
from tile_core.ops.gemm import GEMM
from tile_core.passes.base import PassContext
from tile_core.passes.carried_types import NARROW, SIXES, CarriedValues
from tile_core.passes.coded_tiles import CodedOperands, Form, no_forms, packed_units
from tile_core.passes.legalize_bounds import ADDRESS_OF
from tile_core.passes.lower_tile_ops import with_span
from tile_core.passes.nests import LAYOUT, is_parallel
from tile_core.passes.packed_tiles import PackedTiles, narrow, uses_narrow_types
from tile_core.passes.paired_stores import Pairing
from tile_core.passes.staged_operands import STAGED, along_k, halves, is_turned, product_dtype, run_of

STATE = "pack_narrow"
"""Key of the tensors that became bytes, by the bytes' variable."""
REPLACE_HALF = "half"
"""The kind of atomic update that replaces half of a byte: of its operand bits 0 to 3 are the value, bit 4 the half."""
_RELAXED = 0


@dataclass(frozen=True)
class PackNarrow:
    """`multiplied`: dtypes of which matrix instructions take the bytes; `forms`: how they take narrow floats.

    Raises:
        DataTypeUnsupportedError: a tensor whose rows begin in the middle of a byte, and an op or a view that has no
            meaning in bytes.
        LayoutError: an author's layout of such a tile.
    """

    multiplied: frozenset[str] = frozenset()
    forms: CodedOperands = no_forms
    name: ClassVar[str] = "pack_narrow"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not uses_narrow_types(func):
            return func
        rewriter = _Rewriter(PackedTiles(func, self.multiplied), self.forms, context)
        params = [rewriter.var(param, None) for param in func.params]
        context.state[STATE] = {
            own: param
            for own, param in zip(params, func.params, strict=True)
            if is_buffer_var(param) and not own.same_as(param)
        }
        body = visit.mutate(
            func.body,
            (S.For, rewriter.loop),
            (S.AttrStmt, rewriter.attribute),
            (S.AllocBuffer, rewriter.allocate),
            (S.DeclBuffer, rewriter.view),
            (S.BufferStore, rewriter.store),
            (S.Evaluate, rewriter.evaluate),
            (ir.TensorLoad, rewriter.load),
            *rewriter.callbacks(),
        )
        return tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)


class _Rewriter(CarriedValues):
    def __init__(self, tiles: PackedTiles, forms: CodedOperands, context: PassContext) -> None:
        super().__init__(NARROW, f"the backend {context.backend.name!r}")
        self._tiles, self._forms, self._context = tiles, forms, context
        self._threads = 1
        self._buffers: dict[ir.Var, ir.Var] = {}
        self._staged: list[S.Stmt] = []
        self._updated: frozenset[ir.Var] = frozenset()

    # -- names ---------------------------------------------------------------------------------------------------------

    def var(self, var: ir.Var, mutator: Any) -> ir.Var:
        """A buffer as what holds it."""
        return self._buffer(var) if is_buffer_var(var) else super().var(var, mutator)

    def _buffer(self, buffer: ir.Var) -> ir.Var:
        dtype = narrow(buffer)
        if dtype is None:
            return buffer
        if buffer not in self._buffers:
            self._buffers[buffer] = _bytes(buffer) if buffer in self._tiles else _carrying(buffer, dtype)
        return self._buffers[buffer]

    def allocate(self, stmt: S.AllocBuffer, mutator: Any) -> S.Stmt:
        """The allocation of what holds a buffer."""
        if narrow(stmt.buffer) is None:
            return mutator.default_mutate(stmt)
        return S.AllocBuffer(self._buffer(stmt.buffer), annotations=stmt.annotations, span=stmt.span)

    def view(self, stmt: S.DeclBuffer, mutator: Any) -> S.Stmt:
        """Another name for memory: of the same bytes, or of the same tile of carriers."""
        data = stmt.data
        origin = data.args[0] if isinstance(data, ir.Call) and len(data.args) == 1 else None
        own, source = narrow(stmt.buffer), narrow(origin) if origin is not None and is_buffer_var(origin) else None
        if own is None and source is None:
            return mutator.default_mutate(stmt)
        named = [buffer for buffer in (stmt.buffer, origin) if buffer is not None and narrow(buffer)]
        packed = [buffer in self._tiles or narrow(buffer) in SIXES for buffer in named]
        if origin is None or not all(packed) or regions.FRAGMENT in map(regions.scope, (stmt.buffer, origin)):
            of = "other memory" if origin is None else f"the memory of {origin.name}"
            raise DataTypeUnsupportedError(
                f"{stmt.buffer.name} is another name for {of}, and its values of {source or own} are not whole bytes",
                remedy="view tensors and shared tiles whose last axis is even, or copy the values",
                span=from_tvm(stmt.span),
            )
        return S.DeclBuffer(self._buffer(stmt.buffer), data=self._buffer(origin).data, span=stmt.span)

    def attribute(self, stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
        """What is annotated of a buffer, in bytes."""
        node = stmt.node
        if not is_buffer_var(node) or narrow(node) is None or node not in self._tiles:
            return mutator.default_mutate(stmt)
        if stmt.attr_key == LAYOUT:
            raise LayoutError(
                f"{node.name} is of {node.dtype}, two to a byte, and has a layout of single values",
                remedy="leave the layout to the compiler, or place a tile of uint8",
                span=from_tvm(stmt.span),
            )
        value = stmt.value
        if stmt.attr_key == SAFE_VALUE:
            bits = _bits(mutator.mutate(value))
            value = nibbles.pair(bits, bits)
        return S.AttrStmt(self._buffer(node), stmt.attr_key, value, mutator.mutate(stmt.body), stmt.span)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        """A loop, of pairs of iterations where it stores halves of bytes and they are its own."""
        if is_launch(loop):
            return self._launch(loop, mutator)
        if not is_parallel(loop) and loop.kind != S.ForKind.VECTORIZED:
            return mutator.default_mutate(loop)
        pairing = Pairing(
            self._tiles.__contains__, self._tiles.parity, lambda low, high: self._store_byte(low, high, mutator)
        )
        stored = frozenset(store.buffer for store in pairing.stores(loop.body))
        if not stored:
            return mutator.default_mutate(loop)
        paired = pairing.paired(loop)
        if paired is not None:
            return mutator.mutate(paired)
        before, self._updated = self._updated, self._updated | stored
        changed: S.Stmt = mutator.default_mutate(loop)
        self._updated = before
        return changed

    def _launch(self, loop: S.For, mutator: Any) -> S.Stmt:
        """The nest, with the tiles that its products need."""
        nest, outer = from_stmt(loop), self._staged
        self._threads = prod(nest.threads)
        extents = tuple(mutator.mutate(extent) for extent in nest.grid_extents)
        self._staged = []
        body = mutator.mutate(nest.body)
        body = visit.sequence([*self._staged, body], loop.span)
        self._staged = outer
        return replace(nest, grid_extents=extents, body=body).to_stmt()

    def _store_byte(self, low: S.BufferStore, high: S.BufferStore, mutator: Any) -> S.Stmt:
        values = nibbles.pair(*(_bits(mutator.mutate(half.value)) for half in (low, high)))
        place = nibbles.byte_place([mutator.mutate(index) for index in low.indices])
        return S.BufferStore(self._buffer(low.buffer), values, place, low.span)

    # -- elements ------------------------------------------------------------------------------------------------------

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        """An element: half of a byte, or a value of the carrier."""
        dtype, indices = narrow(load.source), [mutator.mutate(index) for index in load.indices]
        if dtype is None or load.source not in self._tiles:
            return tirx.BufferLoad(self._buffer(load.source), indices, load.span)
        packed = self._byte(load.source, nibbles.byte_place(indices), load.span)
        return cast(nibbles.nibble(packed, indices[-1], is_signed=dtype.is_int), DType(NARROW[dtype].dtype))

    def cast(self, cast: E.Cast, mutator: Any) -> ir.Expr:
        """A conversion; of an element to a float of 16 bits in the form of which two are one instruction."""
        load, target = cast.value, str(cast.ty.dtype)
        dtype = narrow(load.source) if isinstance(load, ir.TensorLoad) and load.source in self._tiles else None
        if dtype is None or dtype.is_float or target not in ("float16", "bfloat16"):
            return super().cast(cast, mutator)
        indices = [mutator.mutate(index) for index in load.indices]
        packed = self._byte(load.source, nibbles.byte_place(indices), load.span)
        if not dtype.is_int:
            return E.Cast(cast.ty, nibbles.nibble(packed, indices[-1], is_signed=False), cast.span)
        # Without its sign bit a value is 8 more: the bits turned over make a number from 0 to 15.
        turned = E.BitwiseXor(E.Cast("int32", packed), tirx.IntImm("int32", nibbles.SIGN * nibbles.TWICE))
        above = E.Cast(cast.ty, nibbles.nibble(turned, indices[-1], is_signed=False), cast.span)
        return E.Sub(above, E.Cast(cast.ty, tirx.FloatImm("float32", float(nibbles.SIGN))))

    def store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        """A store of one element: alone, of a byte, or of half of one."""
        indices, value = [mutator.mutate(index) for index in store.indices], mutator.mutate(store.value)
        buffer = self._buffer(store.buffer)
        if store.buffer not in self._tiles:
            return S.BufferStore(buffer, value, indices, store.span)
        half = E.LShift(E.Cast("uint8", nibbles.parity(indices[-1])), E.IntImm("uint8", nibbles.BITS))
        operand = E.BitwiseOr(E.BitwiseAnd(_bits(value), E.IntImm("uint8", nibbles.MASK)), half)
        update = rmw(buffer, nibbles.byte_place(indices), operand, REPLACE_HALF, _RELAXED, store.span)
        return S.Evaluate(update, store.span)

    def _byte(self, buffer: ir.Var, place: list[ir.Expr], span: ir.Span | None) -> ir.Expr:
        """The byte at a place, which others may be updating the other half of."""
        own = self._buffer(buffer)
        if buffer not in self._updated:
            return tirx.BufferLoad(own, place, span)
        order = {"memory_order": _RELAXED}
        load = tile_op("tile.atomic_load")
        return ir.Call(load, [address(own, place)], attrs=order, ret_ty=ir.PrimType("uint8"), span=span)

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        """Addresses of values are those of their bytes.

        Raises:
            DataTypeUnsupportedError: the address of half of a byte, or an instruction on such values.
        """
        if any(isinstance(argument, ir.TensorRegion) and narrow(argument.source) for argument in call.args):
            raise self._unsupported(call, "works on single values")
        element = call.args[0] if call.args else None
        if str(getattr(call.op, "name", "")) != ADDRESS_OF or not isinstance(element, ir.TensorLoad):
            return super().call(call, mutator)
        if narrow(element.source) is None or element.source not in self._tiles:
            return mutator.default_mutate(call)
        if not self._tiles.parity.is_even(element.indices[-1]):
            raise self._unsupported(call, f"is of half of a byte of {element.source.name}")
        place = nibbles.byte_place([mutator.mutate(index) for index in element.indices])
        return address(self._buffer(element.source), place)

    # -- tile ops ------------------------------------------------------------------------------------------------------

    def evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        """A tile op: on bytes, or as loops over single values."""
        if op_name(stmt) not in OPS:
            return mutator.default_mutate(stmt)
        call = view(stmt, OPS)
        if not any(isinstance(value, ir.TensorRegion) and narrow(value.source) for value in call.args.values()):
            return mutator.default_mutate(stmt)
        whole = self._tiles.in_bytes(call)
        if whole is not None:
            return self._of_bytes(call, whole, mutator)
        if call.op is GEMM:
            return self._staged_product(call, mutator)
        if call.op.lower is None:
            raise self._unsupported(stmt.value, "needs whole bytes: even starts and extents along the last axis")
        context = LowerContext(self._context.target, self._context.capabilities, self._context.options)
        return mutator.mutate(with_span(call.op.lower(call, context), stmt.span))

    def _of_bytes(self, call: OpCall, whole: OpCall, mutator: Any) -> S.Stmt:
        """An op whose regions count bytes already."""
        args = {name: self._operand(value, mutator) for name, value in whole.args.items()}
        attrs = dict(whole.attrs)
        if call.op is FILL:
            dtype = DType(str(call.region("dst").source.dtype))
            value = mutator.mutate(cast(call.args["value"], dtype))
            args["value"] = value if dtype in SIXES else _twice(value)
        elif float(attrs.get("pad", 0)):
            dtype = DType(str(call.region("src").source.dtype))
            attrs["pad"] = _code(float(attrs["pad"]), dtype) * (1 if dtype in SIXES else nibbles.TWICE)
        return OpCall(call.op, args, attrs, call.span).to_stmt()

    def _operand(self, value: ir.Expr, mutator: Any) -> ir.Expr:
        if not isinstance(value, ir.TensorRegion):
            changed: ir.Expr = mutator.mutate(value)
            return changed
        starts, extents = ([mutator.mutate(getattr(axis, name)) for axis in value.region] for name in ("min", "extent"))
        return regions.region(self._buffer(value.source), starts, extents)

    def _staged_product(self, call: OpCall, mutator: Any) -> S.Stmt:
        """A product of tiles that hold the values, along K, in a dtype which products take."""
        dtypes = {side: DType(str(call.region(side).source.dtype)) for side in "ab"}
        args, attrs, before = {name: self._operand(value, mutator) for name, value in call.args.items()}, call.attrs, []
        forms = self._forms(call, self._threads, self._context.options)
        wides = {side: product_dtype(*dtypes.values()) if dtype in NARROW else dtype for side, dtype in dtypes.items()}
        taken = {
            side: str(args[side].source.dtype) == wide.tvm and call.region(side).source not in self._tiles
            for side, wide in wides.items()
        }
        # An operand that the product takes as it is has K as it is.
        in_bytes = {side: self._bytes_along_k(call, side) is not None for side in "ab"}
        run = 1 if any(taken.values()) else run_of(call, in_bytes)
        for side, dtype in dtypes.items():
            if side in forms:
                attrs = {**attrs, f"codes_{side}": str(dtype)}
                if forms[side] is Form.UNITS:
                    args[side], fill = self._units(call, side, mutator)
                    attrs = {**attrs, f"units_{side}": 1, f"transpose_{side}": int(side == "b")}
                    before.append(fill)
                continue
            if taken[side]:
                continue
            tile, fill = self._along_k(call, side, wides[side], run, mutator)
            self._staged.append(S.AllocBuffer(tile, span=call.span))
            own = {f"transpose_{side}": int(side == "b"), STAGED.format(side): 1}
            args[side], attrs = regions.whole(tile), {**attrs, **own}
            before.append(fill)
        return visit.sequence([*before, OpCall(GEMM, args, attrs, call.span).to_stmt()], call.span)

    def _bytes_along_k(self, call: OpCall, side: str) -> ir.TensorRegion | None:
        """The bytes of an operand that lies along K, `None` for any other."""
        return None if is_turned(call, side) else self._tiles.bytes_of_matrix(call.region(side))

    def _along_k(self, call: OpCall, side: str, wide: DType, run: int, mutator: Any) -> tuple[ir.Var, S.Stmt]:
        """A tile of values for an operand, with K in the order of `run`, and the loops that fill it."""
        whole = self._bytes_along_k(call, side)
        if run == 1 or whole is None:
            tile, fill = along_k(call, side, wide, run)
            return tile, mutator.mutate(fill)
        own = Tile(self._operand(whole, mutator))
        outer = [tirx.IntImm("int32", 0)] * (own.rank - 2)
        return halves(call, side, wide, run, lambda row, column: own.load([*outer, row, column]))

    def _units(self, call: OpCall, side: str, mutator: Any) -> tuple[ir.TensorRegion, S.Stmt]:
        """A tile of units for an operand, and the loops that fill it: of its bytes, where these are along K."""
        src = call.region(side)
        turned = is_turned(call, side)
        dtype, whole = DType(str(src.source.dtype)), self._bytes_along_k(call, side)
        own = Tile(src if whole is None else self._operand(whole, mutator))

        def load(row: ir.Expr, column: ir.Expr) -> ir.Expr:
            index = [column, row] if turned else [row, column]
            place = [tirx.IntImm("int32", 0)] * (own.rank - 2) + index
            found = own.load(place)
            return found if whole is not None else _bits(mutator.mutate(found))

        lines, depth = (reversed if turned else list)(src.region[-2:])
        extents = [regions.constant(axis.extent) for axis in (lines, depth)]
        tile, fill = packed_units(own.name, extents, dtype, load, in_bytes=whole is not None, span=call.span)
        self._staged.append(S.AllocBuffer(tile, span=call.span))
        return regions.whole(tile), fill

    def _unsupported(self, call: ir.Call, why: str) -> DataTypeUnsupportedError:
        name = str(getattr(call.op, "name", "")).removeprefix("tile.").removeprefix("tirx.")
        return DataTypeUnsupportedError(
            f"{name} {why}, and values of four bits are held two to a byte",
            remedy="convert the values to 8 bits first, with T.copy into a tile of int8, uint8 or float8_e4m3fn",
            span=from_tvm(call.span),
        )


def _bytes(buffer: ir.Var) -> ir.Var:
    """What holds a buffer two values to a byte: half the last extent, half the strides of the other axes."""
    strides = list(buffer.strides or [])
    outer = [nibbles.halved(stride) for stride in strides[:-1]]
    return tirx.decl_buffer(
        nibbles.byte_place(buffer.shape),
        "uint8",
        str(buffer.name),
        strides=[*outer, strides[-1]] if strides else None,
        scope=buffer.ty.storage_scope,
        data_alignment=1,
    )


def _carrying(buffer: ir.Var, dtype: DType) -> ir.Var:
    """What holds a buffer one value an element."""
    strides = list(buffer.strides or []) or None
    return tirx.decl_buffer(
        buffer.shape,
        NARROW[dtype].dtype,
        str(buffer.name),
        strides=strides,
        scope=buffer.ty.storage_scope,
        data_alignment=1,
    )


def _bits(value: ir.Expr) -> ir.Expr:
    """A value of a carrier as a uint8, of which the low four bits count."""
    return value if str(value.ty.dtype) == "uint8" else E.Cast("uint8", value)


def _twice(value: ir.Expr) -> ir.Expr:
    """A byte of the same value in both halves."""
    number = regions.constant(value)
    if number is None:
        return nibbles.pair(_bits(value), _bits(value))
    return E.IntImm("uint8", (number & nibbles.MASK) * nibbles.TWICE)


def _code(value: float, dtype: DType) -> int:
    """The four bits of a number."""
    found = casts.cast(np.asarray(value, np.float64), DType("float64"), dtype)
    return int(found) & nibbles.MASK if dtype.is_integer else int(found.view(np.uint8))
