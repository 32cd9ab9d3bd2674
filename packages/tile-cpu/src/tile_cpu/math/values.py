"""Float and integer expressions with operators, for writing formulas.

TVM's own operators fold floats by rules that do not hold for NaN and infinities; these build nodes and nothing else. A
value that is used more than once is named with `Formula.let`: LLVM sees it once, whatever the formula.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import ir, tirx

from tile_core.ir.ops import tile_op

SCALE, REST = "tile.scale_exponent", "tile.rest_of_exponent"
"""x * 2^floor(n) of two float32; a float32 less the whole number nearest to it: calls that `import_functions` gives
their code."""


@dataclass(frozen=True)
class Value:
    """A float32 or int32 expression, and whether the target multiplies and adds in one instruction."""

    expr: ir.Expr
    formula: Formula

    def _binary(self, kind: type, other: Value | float, *, swap: bool = False) -> Value:
        right = other if isinstance(other, Value) else self.like(other)
        a, b = (right, self) if swap else (self, right)
        return Value(kind(a.expr, b.expr), self.formula)

    def like(self, number: float) -> Value:
        """A constant of this value's dtype."""
        dtype = str(self.expr.ty.dtype)
        if dtype.startswith("float"):
            return Value(tirx.FloatImm(dtype, number), self.formula)
        return Value(tirx.IntImm(dtype, int(number)), self.formula)

    def __add__(self, other: Value | float) -> Value:
        return self._binary(tirx.Add, other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary(tirx.Sub, other)

    def __rsub__(self, other: float) -> Value:
        return self._binary(tirx.Sub, other, swap=True)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary(tirx.Mul, other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary(tirx.Div, other)

    def __rtruediv__(self, other: float) -> Value:
        return self._binary(tirx.Div, other, swap=True)

    def __lt__(self, other: Value | float) -> Value:
        return self._binary(tirx.LT, other)

    def __gt__(self, other: Value | float) -> Value:
        return self._binary(tirx.GT, other)

    def equals(self, other: Value | float) -> Value:
        """Whether both are equal; false for NaN."""
        return self._binary(tirx.EQ, other)

    def __lshift__(self, bits: int) -> Value:
        return self._binary(tirx.LShift, bits)

    def __rshift__(self, bits: int) -> Value:
        return self._binary(tirx.RShift, bits)

    def __and__(self, mask: int) -> Value:
        return self._binary(ir.prim.BitwiseAnd, mask)

    def __or__(self, other: Value) -> Value:
        return self._binary(ir.prim.BitwiseOr, other)

    def __neg__(self) -> Value:
        return (self.bits() ^ -0x80000000).as_float()

    def __xor__(self, mask: int) -> Value:
        return self._binary(ir.prim.BitwiseXor, mask)

    def fma(self, factor: Value | float, addend: Value | float) -> Value:
        """`self * factor + addend`, rounded once where the target can."""
        if not self.formula.fused:
            return self * factor + addend
        parts = [part if isinstance(part, Value) else self.like(part) for part in (factor, addend)]
        return Value(tirx.op.fma(self.expr, *(part.expr for part in parts)), self.formula)

    def polynomial(self, *coefficients: float) -> Value:
        """`c0 + c1 x + c2 x² + …` by Horner's rule."""
        *lower, last = coefficients
        result = self.like(last)
        for coefficient in reversed(lower):
            result = result.fma(self, coefficient)
        return result

    def sqrt(self) -> Value:
        """The square root, correctly rounded."""
        return Value(tirx.sqrt(self.expr), self.formula)

    def scaled(self, exponent: Value) -> Value:
        """`self * 2^exponent` for a whole or infinite float32 exponent, rounded once."""
        return self._call(SCALE, exponent)

    def rest(self) -> Value:
        """This less the whole number nearest to it, exactly; 0 of an infinity."""
        return self._call(REST)

    def _call(self, name: str, *others: Value) -> Value:
        arguments = [self.expr, *(other.expr for other in others)]
        return Value(ir.Call(tile_op(name, pure=True), arguments, ret_ty=self.expr.ty), self.formula)

    def bits(self) -> Value:
        """The bits of a float32 as int32."""
        return Value(tirx.reinterpret("int32", self.expr), self.formula)

    def as_float(self) -> Value:
        """The float32 whose bits this int32 holds."""
        return Value(tirx.reinterpret("float32", self.expr), self.formula)

    def to_float(self) -> Value:
        """An int32 converted to float32."""
        return Value(tirx.Cast("float32", self.expr), self.formula)

    def magnitude(self) -> Value:
        """The absolute value of a float32."""
        return (self.bits() & 0x7FFFFFFF).as_float()

    def with_sign_of(self, other: Value) -> Value:
        """This, not negative, with the sign bit of `other`."""
        return (self.bits() | (other.bits() & -0x80000000)).as_float()


@dataclass
class Formula:
    """The names that a formula defines, in order.

    `fused` says whether the machine multiplies and adds in one instruction, `scales` whether it has one that multiplies
    by a power of two, and one for the rest of an exponent.
    """

    fused: bool
    scales: bool = False
    _names: list[tuple[ir.Var, ir.Expr]] = field(default_factory=list)

    def let(self, name: str, value: Value) -> Value:
        """A name for `value`, which may then be used many times."""
        if isinstance(value.expr, ir.Var | tirx.FloatImm | tirx.IntImm):
            return value
        var = tirx.Var(name, str(value.expr.ty.dtype))
        self._names.append((var, value.expr))
        return Value(var, self)

    def where(self, condition: Value, yes: Value | float, no: Value | float) -> Value:
        """`yes` where `condition` holds, else `no`; both are evaluated."""
        example = next(side for side in (yes, no) if isinstance(side, Value))
        sides = [side if isinstance(side, Value) else example.like(side) for side in (yes, no)]
        return Value(tirx.Select(condition.expr, sides[0].expr, sides[1].expr), self)

    def close(self, result: Value) -> ir.Expr:
        """`result` under all names."""
        expr = result.expr
        for var, value in reversed(self._names):
            expr = tirx.Let(var, value, expr)
        return expr
