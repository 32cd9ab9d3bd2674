"""Compute with bfloat16 and 8-bit floats in float32, and keep their bits in memory.

An expression of a narrow dtype becomes a float32 expression whose value the dtype can hold: every operation is followed
by a rounding, so that the result is what an operation on the narrow dtype gives. Buffers become buffers of unsigned
integers. A value that is only moved is not converted at all.

This runs on the functions that `split_host` made, after vectorisation: there, buffers are views of untyped addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import buffer_data, buffer_data_pointer_type, is_buffer_var

from tile_core.dtypes import DType
from tile_core.errors.passes import DataTypeUnsupportedError
from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.narrow_floats import NarrowFloat, is_narrow

_BINARY = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)


@dataclass(frozen=True)
class LegalizeNarrowFloats:
    """See the module's docstring.

    Raises:
        DataTypeUnsupportedError: a foreign function takes or returns a narrow float.
    """

    name: ClassVar[str] = "legalize_narrow_floats"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        rewriter = _Rewriter()
        body = visit.mutate(
            func.body,
            (S.AllocBuffer, rewriter.alloc),
            (S.DeclBuffer, rewriter.view),
            (S.Bind, rewriter.bind),
            (S.BufferStore, rewriter.store),
            (ir.TensorLoad, rewriter.load),
            (ir.Call, rewriter.call),
            (E.Cast, rewriter.cast),
            (_BINARY, rewriter.binary),
            (E.Select, rewriter.select),
            (E.Broadcast, rewriter.broadcast),
            (E.Shuffle, rewriter.shuffle),
            (E.Let, rewriter.let),
            (E.FloatImm, rewriter.constant),
            (ir.Var, rewriter.var),
        )
        return func.with_body(body, func.span)


def narrow_of(ty: Any) -> NarrowFloat | None:
    """The narrow float of a type, `None` for any other type."""
    if not isinstance(ty, ir.PrimType):
        return None
    dtype = ty.dtype
    name = str(dtype)
    if dtype.lanes > 1:
        name = name.removesuffix(f"x{dtype.lanes}")
    return NarrowFloat(DType(name), int(dtype.lanes)) if is_narrow(name) else None


def _involved(call: ir.Call) -> str:
    """The narrow float of a call, for a message."""
    kinds = [narrow_of(ty) for ty in (call.ty, *(argument.ty for argument in call.args))]
    return next((str(kind.dtype) for kind in kinds if kind is not None), "tensor of narrow floats")


class _Rewriter:
    def __init__(self) -> None:
        self._buffers: dict[ir.Var, ir.Var] = {}
        self._names: dict[ir.Var, ir.Var] = {}
        self._encoded: dict[ir.Expr, ir.Expr] = {}

    def alloc(self, stmt: S.AllocBuffer, mutator: Any) -> S.Stmt:
        if narrow_of(stmt.buffer.ty.dtype) is None:
            return mutator.default_mutate(stmt)
        return S.AllocBuffer(self._buffer(stmt.buffer), annotations=stmt.annotations, span=stmt.span)

    def view(self, stmt: S.DeclBuffer, mutator: Any) -> S.Stmt:
        if narrow_of(stmt.buffer.ty.dtype) is None:
            return mutator.default_mutate(stmt)
        buffer = self._buffer(stmt.buffer)
        return S.DeclBuffer(buffer, data=_retyped(mutator.mutate(stmt.data), buffer), span=stmt.span)

    def bind(self, stmt: S.Bind, mutator: Any) -> S.Stmt:
        value = mutator.mutate(stmt.value)
        return S.Bind(self.var(stmt.var, mutator), value, stmt.span)

    def store(self, stmt: S.BufferStore, mutator: Any) -> S.Stmt:
        narrow = narrow_of(stmt.value.ty)
        if narrow is None:
            return mutator.default_mutate(stmt)
        indices = [mutator.mutate(index) for index in stmt.indices]
        value = self._bits(mutator.mutate(stmt.value), narrow)
        return rebuild.store(stmt, buffer=self._buffer(stmt.buffer), value=value, indices=indices)

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        narrow = narrow_of(load.ty)
        if narrow is None:
            return mutator.default_mutate(load)
        return self._value(self._raw_load(load, mutator), narrow)

    def _raw_load(self, load: ir.TensorLoad, mutator: Any) -> ir.TensorLoad:
        indices = [mutator.mutate(index) for index in load.indices]
        return tirx.BufferLoad(self._buffer(load.source), indices, load.span)

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        handler = _CALLS.get(name)
        narrow = narrow_of(call.ty)
        involved = narrow is not None or any(
            narrow_of(argument.ty) or _narrow_buffer(argument) for argument in call.args
        )
        if not involved:
            return mutator.default_mutate(call)
        if handler is not None:
            return handler(self, call, narrow, mutator)
        if narrow is None or name.startswith(("tirx.call_", "prim.call_")):
            raise DataTypeUnsupportedError(
                f"{name} takes or returns a {_involved(call)}, which has no form in C",
                remedy="convert to float32 first, and the result afterwards",
            )
        arguments = [mutator.mutate(argument) for argument in call.args]
        return self._round(ir.Call(call.op, arguments, ret_ty=_single(narrow), span=call.span), narrow)

    def _call_choice(self, call: ir.Call, narrow: NarrowFloat | None, mutator: Any) -> ir.Expr:
        condition, then, otherwise = (mutator.mutate(argument) for argument in call.args)
        if narrow is None:
            return tirx.if_then_else(condition, then, otherwise)
        return self._moved(narrow, (then, otherwise), lambda a, b: tirx.if_then_else(condition, a, b))

    def _call_reinterpret(self, call: ir.Call, narrow: NarrowFloat | None, mutator: Any) -> ir.Expr:
        (argument,) = call.args
        source = narrow_of(argument.ty)
        raw = mutator.mutate(argument)
        if source is not None:
            raw = self._bits(raw, source)
        if narrow is None:
            return tirx.reinterpret(str(call.ty.dtype), raw)
        return self._value(tirx.reinterpret(narrow.storage, raw), narrow)

    def _call_address(self, call: ir.Call, _narrow: NarrowFloat | None, mutator: Any) -> ir.Expr:
        return tirx.address_of(self._raw_load(call.args[0], mutator))

    def _call_data(self, call: ir.Call, _narrow: NarrowFloat | None, _mutator: Any) -> ir.Expr:
        return buffer_data(self._buffer(call.args[0]))

    def _call_masked_load(self, call: ir.Call, narrow: NarrowFloat | None, mutator: Any) -> ir.Expr:
        assert narrow is not None
        buffer, *rest = call.args
        arguments = [self._buffer(buffer), *(mutator.mutate(argument) for argument in rest)]
        return self._value(ir.Call(call.op, arguments, ret_ty=ir.PrimType(narrow.storage), span=call.span), narrow)

    def _call_masked_store(self, call: ir.Call, _narrow: NarrowFloat | None, mutator: Any) -> ir.Expr:
        buffer, value, *rest = call.args
        narrow = narrow_of(value.ty)
        assert narrow is not None
        bits = self._bits(mutator.mutate(value), narrow)
        arguments = [self._buffer(buffer), bits, *(mutator.mutate(argument) for argument in rest)]
        return ir.Call(call.op, arguments, ret_ty=call.ty, span=call.span)

    def cast(self, cast: E.Cast, mutator: Any) -> ir.Expr:
        value = mutator.mutate(cast.value)
        target = narrow_of(cast.ty)
        if target is None:
            return value if value.ty.dtype == cast.ty.dtype else E.Cast(cast.ty, value, cast.span)
        single = _single(target)
        return self._round(value if value.ty.dtype == single.dtype else E.Cast(single, value), target)

    def binary(self, expr: Any, mutator: Any) -> ir.Expr:
        narrow = narrow_of(expr.ty)
        if narrow is None:
            return mutator.default_mutate(expr)
        return self._round(type(expr)(mutator.mutate(expr.a), mutator.mutate(expr.b)), narrow)

    def select(self, expr: E.Select, mutator: Any) -> ir.Expr:
        narrow = narrow_of(expr.ty)
        if narrow is None:
            return mutator.default_mutate(expr)
        condition = mutator.mutate(expr.condition)
        sides = (mutator.mutate(expr.true_value), mutator.mutate(expr.false_value))
        return self._moved(narrow, sides, lambda a, b: E.Select(condition, a, b))

    def broadcast(self, expr: E.Broadcast, mutator: Any) -> ir.Expr:
        narrow = narrow_of(expr.ty)
        if narrow is None:
            return mutator.default_mutate(expr)
        return self._moved(narrow, (mutator.mutate(expr.value),), lambda value: E.Broadcast(value, expr.lanes))

    def shuffle(self, expr: E.Shuffle, mutator: Any) -> ir.Expr:
        narrow = narrow_of(expr.ty)
        if narrow is None:
            return mutator.default_mutate(expr)
        vectors = tuple(mutator.mutate(vector) for vector in expr.vectors)
        return self._moved(narrow, vectors, lambda *parts: E.Shuffle(list(parts), expr.indices))

    def let(self, expr: E.Let, mutator: Any) -> ir.Expr:
        value = mutator.mutate(expr.value)
        name = self.var(expr.var, mutator)
        return E.Let(name, value, mutator.mutate(expr.body), expr.span)

    def constant(self, expr: E.FloatImm, mutator: Any) -> ir.Expr:
        narrow = narrow_of(expr.ty)
        return expr if narrow is None else self._round(E.FloatImm("float32", expr.value), narrow)

    def var(self, var: ir.Var, mutator: Any) -> ir.Var:
        if is_buffer_var(var):
            return self._buffers.get(var, var)
        narrow = narrow_of(var.ty)
        if narrow is None:
            return var
        if var not in self._names:
            self._names[var] = tirx.Var(var.name, _single(narrow))
        return self._names[var]

    def _buffer(self, buffer: ir.Var) -> ir.Var:
        """The buffer of bits for a buffer of a narrow dtype."""
        narrow = narrow_of(buffer.ty.dtype)
        assert narrow is not None
        if buffer not in self._buffers:
            self._buffers[buffer] = tirx.decl_buffer(
                buffer.shape,
                narrow.storage,
                buffer.name,
                strides=buffer.strides,
                elem_offset=buffer.elem_offset,
                scope=buffer.ty.storage_scope,
                data_alignment=buffer.data_alignment,
                layout=None,
            )
        return self._buffers[buffer]

    def _value(self, bits: ir.Expr, narrow: NarrowFloat) -> ir.Expr:
        """The value of `bits`, remembered, so that storing it again needs no conversion."""
        value = narrow.decode(bits)
        self._encoded[value] = bits
        return value

    def _round(self, value: ir.Expr, narrow: NarrowFloat) -> ir.Expr:
        return self._value(narrow.encode(value), narrow)

    def _bits(self, value: ir.Expr, narrow: NarrowFloat) -> ir.Expr:
        known = self._encoded.get(value)
        return narrow.encode_exact(value) if known is None else known

    def _moved(self, narrow: NarrowFloat, parts: tuple[ir.Expr, ...], move: Any) -> ir.Expr:
        """A choice or arrangement of values, done on their bits where all of them are known."""
        known = [self._encoded.get(part) for part in parts]
        if any(bits is None for bits in known):
            return move(*parts)
        return self._value(move(*known), narrow)


_CALLS: dict[str, Any] = {
    "prim.if_then_else": _Rewriter._call_choice,
    "tirx.reinterpret": _Rewriter._call_reinterpret,
    "tirx.address_of": _Rewriter._call_address,
    "tirx.buffer_data": _Rewriter._call_data,
    "tirx.masked_load": _Rewriter._call_masked_load,
    "tirx.masked_store": _Rewriter._call_masked_store,
}


def _single(narrow: NarrowFloat) -> ir.PrimType:
    return ir.PrimType("float32" if narrow.lanes == 1 else f"float32x{narrow.lanes}")


def _narrow_buffer(argument: ir.Expr) -> bool:
    return is_buffer_var(argument) and narrow_of(argument.ty.dtype) is not None


def _retyped(data: ir.Expr, buffer: ir.Var) -> ir.Expr:
    """`data` as the address of the elements of `buffer`."""
    ty = buffer_data_pointer_type(buffer)
    if isinstance(data, ir.Call) and data.op.name == "tirx.tvm_struct_get":
        return ir.Call(data.op, list(data.args), ret_ty=ty)
    if isinstance(data, ir.Call) and data.op.name == "tirx.reinterpret":
        return tirx.reinterpret(ty, data.args[0])
    return tirx.reinterpret(ty, data)
