"""Values of types that a target has no arithmetic for, carried by types that it has.

A value of such a type is a value of its carrier that the type can hold; whatever makes one fits it again, so results
are those of `tile_core.dtypes.casts`. A float may also be carried as its bits: arithmetic, comparisons and conversions
then go through float32, which holds every value of a narrow float exactly, and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import DType, casts
from tile_core.errors.passes import DataTypeUnsupportedError, UnsupportedOnTargetError
from tile_core.ir import nibbles, visit
from tile_core.ir.codes import CODES, SIX, WIDE, Code
from tile_core.ir.spans import from_tvm
from tile_core.ops.scalar import CAST

ARITHMETIC = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
BITWISE = (E.BitwiseAnd, E.BitwiseOr, E.BitwiseXor, E.LShift, E.RShift)
COMPARISONS = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)
IF_THEN_ELSE = "prim.if_then_else"
REINTERPRET = "tirx.reinterpret"


@dataclass(frozen=True)
class Carrier:
    """The dtype that carries another, and how a value of it is made to fit; `code` where it holds the bits."""

    dtype: str
    fit: Callable[[ir.Expr], ir.Expr]
    code: Code | None = None


def _saturated(value: ir.Expr, source: DType, dtype: DType, carrier: Carrier) -> ir.Expr:
    """A float as an integer of few bits: toward zero, the bounds for what is beyond them, 0 for NaN."""
    name = tirx.Var("value", WIDE if source.bits < 32 else source.tvm)
    low, high = (int(bound) for bound in (dtype.min, dtype.max))

    def bound(number: int) -> ir.Expr:
        return tirx.IntImm(carrier.dtype, number)

    def past(kind: Any, number: int) -> ir.Expr:
        return kind(name, tirx.FloatImm(name.ty, float(number)))

    inside = E.Select(past(E.LT, high), E.Cast(carrier.dtype, name), bound(high))
    outside = E.Select(past(E.LE, low), bound(low), bound(0))
    whole = E.Select(past(E.GT, low), inside, outside)
    return E.Let(name, value if str(value.ty.dtype) == str(name.ty.dtype) else E.Cast(name.ty, value), whole)


def _whole(value: ir.Expr) -> ir.Expr:
    return value


NIBBLES: Mapping[DType, Carrier] = {
    DType("int4"): Carrier("int8", nibbles.signed),
    DType("uint4"): Carrier("uint8", nibbles.unsigned),
    DType("float4_e2m1fn"): Carrier("uint8", nibbles.unsigned, CODES[DType("float4_e2m1fn")]),
}
"""The types of four bits, for targets that have arithmetic on neither them nor narrow floats."""
SIXES: Mapping[DType, Carrier] = {
    dtype: Carrier("uint8", _whole, code) for dtype, code in CODES.items() if dtype.bits == SIX
}
"""The floats of six bits, each the low bits of a byte."""
NARROW: Mapping[DType, Carrier] = {**NIBBLES, **SIXES}
"""Both."""


class CarriedValues:
    """Rewrites the expressions and names of a program whose types `carriers` maps; `target` is named in refusals."""

    def __init__(self, carriers: Mapping[DType, Carrier], target: str) -> None:
        self._carriers, self._target = carriers, target
        self._names: dict[ir.Var, ir.Var] = {}

    def callbacks(self) -> list[visit.Callback]:
        """What `visit.mutate` takes; an owner adds its own for buffers."""
        return [
            (S.Bind, self.bind),
            (ir.Call, self.call),
            (E.Cast, self.cast),
            ((*ARITHMETIC, *BITWISE), self.binary),
            (COMPARISONS, self.comparison),
            (E.Select, self.select),
            (E.Let, self.let),
            ((E.IntImm, E.FloatImm), self.constant),
            (ir.Var, self.var),
        ]

    def carrier_of(self, ty: Any) -> Carrier | None:
        """The carrier of a type, `None` for a type that stands for itself.

        Raises:
            DataTypeUnsupportedError: a vector of a carried type.
        """
        if not isinstance(ty, ir.PrimType):
            return None
        dtype = DType(str(ty.dtype) or "void")
        if dtype.is_vector and dtype.element in self._carriers:
            raise DataTypeUnsupportedError(
                f"{self._target} has no {dtype}", remedy=f"use {dtype.element}, or another vector type"
            )
        return self._carriers.get(dtype)

    def bind(self, stmt: S.Bind, mutator: Any) -> S.Stmt:
        """A name for a value of the carrier."""
        value = mutator.mutate(stmt.value)
        return S.Bind(self.var(stmt.var, mutator), value, stmt.span)

    def let(self, expr: E.Let, mutator: Any) -> ir.Expr:
        """The same inside of an expression."""
        value = mutator.mutate(expr.value)
        return E.Let(self.var(expr.var, mutator), value, mutator.mutate(expr.body), expr.span)

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        """A function of such values: on what they are carried by, or on the floats whose bits they are."""
        carrier = self.carrier_of(call.ty)
        of_codes = any(self._code(argument) is not None for argument in call.args)
        if carrier is None and not of_codes:
            return mutator.default_mutate(call)
        name = str(getattr(call.op, "name", ""))
        arguments = [mutator.mutate(argument) for argument in call.args]
        if name in (IF_THEN_ELSE, REINTERPRET) or not (of_codes or (carrier is not None and carrier.code)):
            ty = call.ty if carrier is None else ir.PrimType(carrier.dtype)
            made = ir.Call(call.op, arguments, attrs=call.attrs, ret_ty=ty, span=call.span)
            return made if carrier is None or name == IF_THEN_ELSE else carrier.fit(made)
        if name == CAST and carrier is not None:
            options = f'round="{call.attrs["rounding"]}", sat={bool(call.attrs["saturate"])}'
            raise UnsupportedOnTargetError(
                f"T.cast to {DType(str(call.ty.dtype))} with {options} is not available on {self._target}",
                remedy="convert to nearest with saturation: leave round= and sat= out",
                span=from_tvm(call.span),
            )
        arguments = [self._decoded(old, new) for old, new in zip(call.args, arguments, strict=True)]
        ty = ir.PrimType(WIDE) if carrier is not None and carrier.code else call.ty
        made = ir.Call(call.op, arguments, attrs=call.attrs, ret_ty=ty, span=call.span)
        return made if carrier is None or carrier.code is None else carrier.code.encode(made)

    def cast(self, cast: E.Cast, mutator: Any) -> ir.Expr:
        """A conversion from or to a carried type."""
        value, carrier = self._decoded(cast.value, mutator.mutate(cast.value)), self.carrier_of(cast.ty)
        if carrier is None:
            return value if value.ty.dtype == cast.ty.dtype else E.Cast(cast.ty, value, cast.span)
        if carrier.code is not None:
            if str(cast.value.ty.dtype) == str(cast.ty.dtype):
                return mutator.mutate(cast.value)
            return carrier.code.encode(value if str(value.ty.dtype) == WIDE else E.Cast(WIDE, value, cast.span))
        dtype, source = DType(str(cast.ty.dtype)), DType(str(value.ty.dtype))
        if dtype.is_integer and source.is_float:
            return _saturated(value, source, dtype, carrier)
        return carrier.fit(value if source.name == carrier.dtype else E.Cast(carrier.dtype, value, cast.span))

    def binary(self, expr: Any, mutator: Any) -> ir.Expr:
        """Arithmetic, fitted."""
        carrier = self.carrier_of(expr.ty)
        if carrier is None:
            return mutator.default_mutate(expr)
        operands = [self._decoded(side, mutator.mutate(side)) for side in (expr.a, expr.b)]
        made = type(expr)(*operands)
        return carrier.fit(made) if carrier.code is None else carrier.code.encode(made)

    def comparison(self, expr: Any, mutator: Any) -> ir.Expr:
        """A comparison of what the values are carried by, or of the floats whose bits they are."""
        if self.carrier_of(expr.a.ty) is None:
            return mutator.default_mutate(expr)
        return type(expr)(*(self._decoded(side, mutator.mutate(side)) for side in (expr.a, expr.b)))

    def select(self, expr: E.Select, mutator: Any) -> ir.Expr:
        """A choice between values."""
        if self.carrier_of(expr.ty) is None:
            return mutator.default_mutate(expr)
        return E.Select(*(mutator.mutate(part) for part in (expr.condition, expr.true_value, expr.false_value)))

    def constant(self, expr: Any, _mutator: Any) -> ir.Expr:
        """A number as its carrier has it."""
        carrier = self.carrier_of(expr.ty)
        if carrier is None:
            return expr
        dtype = DType(str(expr.ty.dtype))
        if dtype.is_integer:
            return tirx.IntImm(carrier.dtype, int(expr.value))
        value = casts.cast(np.asarray(expr.value, np.float64), DType("float64"), dtype)
        if carrier.code is not None:
            return tirx.IntImm(carrier.dtype, int(value.view(np.uint8)))
        return tirx.FloatImm(carrier.dtype, float(value))

    def var(self, var: ir.Var, _mutator: Any) -> ir.Var:
        """A name of a carried type; buffers are the owner's."""
        carrier = None if is_buffer_var(var) else self.carrier_of(var.ty)
        if carrier is None:
            return var
        return self._names.setdefault(var, tirx.Var(var.name, carrier.dtype))

    def _code(self, expr: Any) -> Code | None:
        carrier = self.carrier_of(getattr(expr, "ty", None))
        return None if carrier is None else carrier.code

    def _decoded(self, original: ir.Expr, carried: ir.Expr) -> ir.Expr:
        """`carried` as what arithmetic takes: a float for the bits of one."""
        code = self._code(original)
        return carried if code is None else code.decode(carried)
