"""Types that neither TVM nor LLVM computes with, carried by types that they do: int4, uint4, tfloat32, float6, others.

A value of such a type is a value of its carrier that the type can hold; whatever makes one fits it again, so results
are those of `tile_core.dtypes.casts`. Tiles hold one value an element of the carrier. Tensors of int4, uint4 and
float4_e2m1fn are packed two to a byte, the first in the low half, as the caller passes them: an access becomes one of
the byte. Two values of a byte may belong to different cores, so a store adds the difference to the byte atomically.

This runs before loops are vectorised, while every access is one of a single element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import DType
from tile_core.errors.passes import DataTypeUnsupportedError
from tile_core.ir import nibbles, visit
from tile_core.ir.launch import from_stmt, is_launch
from tile_core.ir.regions import GLOBAL, scope
from tile_core.ops.atomic import rmw
from tile_core.passes.base import PassContext
from tile_core.passes.carried_types import NIBBLES, SIXES, CarriedValues, Carrier

_RELAXED = 0


def _tfloat32(value: ir.Expr) -> ir.Expr:
    """To ten bits of mantissa, halves away from zero; infinities and NaN as they are."""
    var = tirx.Var("bits", "uint32")
    word = [tirx.IntImm("uint32", constant) for constant in (0x1000, 0xFFFFE000, 0x7F800000)]
    finite = E.NE(E.BitwiseAnd(var, word[2]), word[2])
    rounded = E.Select(finite, E.BitwiseAnd(E.Add(var, word[0]), word[1]), var)
    return E.Let(var, tirx.reinterpret("uint32", value), tirx.reinterpret("float32", rounded))


CARRIERS = {
    DType("int4"): NIBBLES[DType("int4")],
    DType("uint4"): NIBBLES[DType("uint4")],
    DType("tfloat32"): Carrier("float32", _tfloat32),
    DType("float4_e2m1_unpacked"): Carrier("float4_e2m1fn", lambda value: value),
    **SIXES,
}
PACKED = (DType("int4"), DType("uint4"), DType("float4_e2m1fn"))


@dataclass(frozen=True)
class LegalizeCarriedTypes:
    """See the module's docstring.

    Raises:
        DataTypeUnsupportedError: a vector of such a type, or a view of its memory as another type.
    """

    name: ClassVar[str] = "legalize_carried_types"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        rewriter = _Rewriter()
        params = [rewriter.param(param) for param in func.params]
        body = visit.mutate(
            func.body,
            (S.For, rewriter.launch),
            (S.AllocBuffer, rewriter.alloc),
            (S.DeclBuffer, rewriter.view),
            (S.BufferStore, rewriter.store),
            (ir.TensorLoad, rewriter.load),
            *rewriter.callbacks(),
        )
        return tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)


class _Rewriter(CarriedValues):
    def __init__(self) -> None:
        super().__init__(CARRIERS, "the CPU")
        self._buffers: dict[ir.Var, ir.Var] = {}
        self._views: list[S.Stmt] = []

    def param(self, param: ir.Var) -> ir.Var:
        """A tensor or number of the carrier for one of a carried type.

        Packed tensors stay as the caller passes them.
        """
        if not is_buffer_var(param):
            return self.var(param, None)
        if _is_packed(param) or self.carrier_of(param.ty.dtype) is None:
            return param
        dtype = DType(str(param.dtype))
        if dtype.carrier is dtype:
            raise DataTypeUnsupportedError(
                f"no caller has a tensor of {dtype}, which {param.name} is", remedy="use it for tiles only"
            )
        self._buffers[param] = _like(param, dtype.carrier)
        return self._buffers[param]

    def launch(self, loop: S.For, mutator: Any) -> S.Stmt:
        if not is_launch(loop):
            return mutator.default_mutate(loop)
        nest = from_stmt(loop)
        # A view is a name of its launch alone.
        self._views = []
        self._buffers = {buffer: own for buffer, own in self._buffers.items() if not _is_packed(buffer)}
        body = mutator.mutate(nest.body)
        return replace(
            nest,
            grid_extents=tuple(mutator.mutate(extent) for extent in nest.grid_extents),
            body=visit.sequence([*self._views, body], loop.span),
        ).to_stmt()

    def alloc(self, stmt: S.AllocBuffer, mutator: Any) -> S.Stmt:
        if self.carrier_of(stmt.buffer.ty.dtype) is None:
            return mutator.default_mutate(stmt)
        return S.AllocBuffer(self._buffer(stmt.buffer), annotations=stmt.annotations, span=stmt.span)

    def view(self, stmt: S.DeclBuffer, mutator: Any) -> S.Stmt:
        target, data = DType(str(stmt.buffer.dtype)), stmt.data
        is_data = isinstance(data, ir.Call) and str(getattr(data.op, "name", "")) == "tirx.buffer_data"
        source = DType(str(data.args[0].dtype)) if is_data else target
        if not any(dtype in CARRIERS or dtype in PACKED for dtype in (source, target)):
            return mutator.default_mutate(stmt)
        if source is not target or not is_data or _is_packed(data.args[0]):
            raise DataTypeUnsupportedError(
                f"the CPU cannot view {source} as {target}", remedy="convert the values with T.copy"
            )
        origin = data.args[0]
        base = self._buffer(origin) if self.carrier_of(origin.ty.dtype) is not None else origin
        buffer = self._buffer(stmt.buffer) if self.carrier_of(stmt.buffer.ty.dtype) is not None else stmt.buffer
        return S.DeclBuffer(buffer, data=base.data, span=stmt.span)

    def store(self, stmt: S.BufferStore, mutator: Any) -> S.Stmt:
        buffer = stmt.buffer
        indices, value = [mutator.mutate(index) for index in stmt.indices], mutator.mutate(stmt.value)
        if _is_packed(buffer):
            return self._store_half(buffer, indices, value, stmt.span)
        if self.carrier_of(buffer.ty.dtype) is not None:
            buffer = self._buffer(buffer)
        return S.BufferStore(buffer, value, indices, stmt.span)

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        indices = [mutator.mutate(index) for index in load.indices]
        if _is_packed(load.source):
            return self._load_half(load.source, indices)
        buffer = load.source if self.carrier_of(load.ty) is None else self._buffer(load.source)
        return tirx.BufferLoad(buffer, indices, load.span)

    def var(self, var: ir.Var, mutator: Any) -> ir.Var:
        return self._buffers.get(var, var) if is_buffer_var(var) else super().var(var, mutator)

    def _buffer(self, buffer: ir.Var) -> ir.Var:
        """The buffer of carriers, or of bytes for a packed tensor."""
        if buffer not in self._buffers:
            carrier = self.carrier_of(buffer.ty.dtype)
            made = (
                _packed(buffer)
                if _is_packed(buffer)
                else _like(buffer, carrier.dtype if carrier else str(buffer.dtype))
            )
            self._buffers[buffer] = made
            if scope(buffer) == GLOBAL:
                self._views.append(S.DeclBuffer(made, data=buffer.data))
        return self._buffers[buffer]

    def _load_half(self, buffer: ir.Var, indices: list[ir.Expr]) -> ir.Expr:
        place, shift = _half(indices)
        code = nibbles.unsigned(E.RShift(tirx.BufferLoad(self._buffer(buffer), place), shift))
        dtype = DType(str(buffer.dtype))
        if dtype.is_float:
            return _reinterpret(dtype.tvm, code)
        return nibbles.signed(_reinterpret("int8", code)) if dtype.is_int else code

    def _store_half(self, buffer: ir.Var, indices: list[ir.Expr], value: ir.Expr, span: Any) -> S.Stmt:
        place, shift = _half(indices)
        packed = self._buffer(buffer)
        code = nibbles.unsigned(_reinterpret("uint8", value))
        old = nibbles.unsigned(E.RShift(tirx.BufferLoad(packed, place), shift))
        # Adding the difference changes the one half only: the whole byte never carries over.
        change = E.LShift(E.Sub(code, old), shift)
        return S.Evaluate(rmw(packed, place, change, "add", _RELAXED, span), span)


def _is_packed(buffer: ir.Var) -> bool:
    return scope(buffer) == GLOBAL and DType(str(buffer.dtype)) in PACKED


def _half(indices: list[ir.Expr]) -> tuple[list[ir.Expr], ir.Expr]:
    """The index of the byte and the shift of the value in it."""
    half = E.Cast("uint8", nibbles.parity(indices[-1]))
    return nibbles.byte_place(indices), E.Mul(half, tirx.IntImm("uint8", nibbles.BITS))


def _packed(buffer: ir.Var) -> ir.Var:
    """A view of a packed tensor as bytes: half the last extent, half the strides of the other axes."""
    *outer, last = buffer.shape
    halves = [nibbles.halved(stride) for stride in list(buffer.strides)[:-1]]
    strides = [*halves, buffer.strides[-1]] if buffer.strides else None
    extents = [*outer, nibbles.halved(last)]
    return tirx.decl_buffer(extents, "uint8", f"{buffer.name}_bytes", strides=strides, data_alignment=1)


def _like(buffer: ir.Var, dtype: str) -> ir.Var:
    return tirx.decl_buffer(
        buffer.shape,
        dtype,
        buffer.name,
        strides=buffer.strides,
        elem_offset=buffer.elem_offset,
        scope=buffer.ty.storage_scope,
        data_alignment=DType(dtype).bytes,
    )


def _reinterpret(dtype: str, value: ir.Expr) -> ir.Expr:
    """The bits of a value of at most a byte as another type; TVM's own builder wants equal widths."""
    if str(value.ty.dtype) == dtype:
        return value
    return ir.Call(ir.Op.get("tirx.reinterpret"), [value], ret_ty=ir.PrimType(dtype))
