"""Expressions of one loop iteration, rewritten to compute `lanes` consecutive iterations at once.

TVM's own vectoriser gives up on a whole loop when it meets a condition, and reads both sides of an `if_then_else`
that it does vectorise. Here a condition becomes a lane mask: a load that stands under a condition reads through the
mask, so a lane whose condition is false touches no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir, tirx

from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.passes.ranges import LIKELY
from tile_cpu.math.values import REST, SCALE
from tile_cpu.passes.affine import dtype_of, int_of, lanes_of

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
_DIVISION = (tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Div)
COMPARISON = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_BITWISE = (ir.prim.LShift, ir.prim.RShift, ir.prim.BitwiseAnd, ir.prim.BitwiseOr, ir.prim.BitwiseXor)
_BINARY = (*_ARITHMETIC, *COMPARISON, *_BITWISE, tirx.And, tirx.Or)

# Calls without memory or effects whose result in a lane depends on that lane of the arguments alone.
_ELEMENTWISE = frozenset([REST, SCALE, "tirx.reinterpret", "tirx.isnan", "tirx.nearbyint", "prim.ceil", "prim.floor"])


_PURE = (0, 1)
"""`tvm::tirx::CallEffectKind`: an annotation of its argument, a function of its arguments."""


class NotVectorizableError(Exception):
    """The code cannot be vectorised along this axis; it stays scalar. Never reaches a user."""


def broadcast(value: ir.Expr, lanes: int) -> ir.Expr:
    """`value` in every lane; a vector is left as it is."""
    return value if lanes_of(value) == lanes else tirx.Broadcast(value, lanes)


def vector_dtype(expr: ir.Expr, lanes: int) -> str:
    """The dtype of `expr` with `lanes` lanes."""
    return f"{dtype_of(expr)}x{lanes}"


def conjunction(*conditions: ir.Expr | None) -> ir.Expr | None:
    """The `And` of the conditions that are given."""
    result: ir.Expr | None = None
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else _binary(tirx.And, result, condition)
    return result


def _binary(kind: Any, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    lanes = max(lanes_of(a), lanes_of(b))
    return kind(broadcast(a, lanes), broadcast(b, lanes)) if lanes > 1 else kind(a, b)


class VectorValues:
    """Rewrites expressions for the iterations `first … first + lanes - 1` of `var`.

    `assumed` holds the comparisons that are true in every lane; `private` maps a buffer that lives inside the
    loop body to its copy with one slot a lane. `masked` says whether loads may take a lane mask, `fused` whether the
    machine multiplies and adds in one instruction.
    """

    def __init__(
        self,
        var: ir.Var,
        first: ir.Expr,
        lanes: int,
        analyzer: Analyzer,
        assumed: Callable[[ir.Expr], bool],
        masked: bool,
        fused: bool,
    ) -> None:
        self.lanes = lanes
        self._fused = fused
        self.masked = masked
        self.private: dict[ir.Var, ir.Var] = {}
        self._analyzer = analyzer
        self._assumed = assumed
        one = int_of(dtype_of(first), 1)
        self._values: dict[ir.Var, ir.Expr] = {var: tirx.Ramp(first, one, int_of("int32", lanes))}

    def bind(self, var: ir.Var, value: ir.Expr) -> ir.Var:
        """A fresh variable that stands for `var` and has the type of `value`: the body may be written out twice."""
        fresh = tirx.Var(var.name, value.ty)
        self.define(var, fresh)
        return fresh

    def define(self, var: ir.Var, value: ir.Expr) -> None:
        """Let `value` stand for `var`."""
        self._values[var] = value

    def value(self, expr: ir.Expr, mask: ir.Expr | None = None) -> ir.Expr:
        """`expr` for all lanes; a scalar where it is the same in all of them.

        `mask`, a vector, tells the lanes in which `expr` is evaluated at all (`None`: all).
        """
        if isinstance(expr, ir.Var):
            return self._values.get(expr, expr)
        if isinstance(expr, tirx.IntImm | tirx.FloatImm | ir.StringImm):
            return expr
        handler = _HANDLERS.get(type(expr))
        if handler is None:
            raise NotVectorizableError(type(expr).__name__)
        return handler(self, expr, mask)

    def index(self, expr: ir.Expr, mask: ir.Expr | None) -> ir.Expr:
        """An index, simplified so that consecutive addresses show as a ramp of stride 1."""
        value = self.value(expr, mask)
        return value if lanes_of(value) == 1 else self._analyzer.simplify(value)

    def address(self, buffer: ir.Var, indices: Any, mask: ir.Expr | None) -> tuple[ir.Var, list[ir.Expr], bool]:
        """The buffer to access, its indices with lanes in the last one, and whether the lanes are consecutive."""
        values = [self.index(index, mask) for index in indices]
        if buffer in self.private:
            if any(lanes_of(value) > 1 for value in values):
                raise NotVectorizableError("array of one iteration indexed by the vector axis")
            zero, one = int_of("int32", 0), int_of("int32", 1)
            return self.private[buffer], [*values, tirx.Ramp(zero, one, int_of("int32", self.lanes))], True
        if any(lanes_of(value) > 1 for value in values[:-1]):
            values = self._flattened(buffer, values)
        last = values[-1]
        return buffer, values, isinstance(last, tirx.Ramp) and constant(last.stride) == 1 and _unit_stride(buffer)

    def _flattened(self, buffer: ir.Var, values: list[ir.Expr]) -> list[ir.Expr]:
        """Move every vector into the last index, which alone may have lanes."""
        if not _unit_stride(buffer):
            raise NotVectorizableError("strided last axis")
        strides = _strides(buffer)
        bits = max(int(part.ty.dtype.bits) for part in (*values, *strides))
        offset = _widened(values[-1], bits)
        for value, stride in zip(values[:-1], strides[:-1], strict=True):
            if lanes_of(value) > 1:
                offset = _binary(tirx.Add, offset, _binary(tirx.Mul, _widened(value, bits), _widened(stride, bits)))
        offset = self._analyzer.simplify(offset)
        zeros = [int_of(f"int{bits}", 0) if lanes_of(value) > 1 else value for value in values[:-1]]
        return [*zeros, offset]

    def _load(self, load: ir.TensorLoad, mask: ir.Expr | None) -> ir.Expr:
        if lanes_of(load) != 1:
            raise NotVectorizableError("vector load in the source")
        buffer, indices, consecutive = self.address(load.source, load.indices, mask)
        if mask is None or not self._may_fault(load):
            return tirx.BufferLoad(buffer, indices)
        if not (consecutive and self.masked):
            raise NotVectorizableError("scattered load under a mask")
        return tirx.op.masked_load(vector_dtype(load, self.lanes), buffer, *indices, mask)

    def _may_fault(self, load: ir.TensorLoad) -> bool:
        """Whether an index could lie outside its buffer."""
        if load.source in self.private:
            return False
        for index, extent in zip(load.indices, load.source.shape, strict=True):
            zero = int_of(dtype_of(index), 0)
            if not self._analyzer.can_prove(tirx.And(index >= zero, index < extent)):
                return True
        return False

    def _binary(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        if isinstance(expr, COMPARISON) and self._assumed(expr):
            return tirx.IntImm("bool", 1)
        a, b = self.value(expr.a, mask), self.value(expr.b, mask)
        if isinstance(expr, tirx.And | tirx.Or):
            return _logical(type(expr), a, b)
        if lanes_of(a) == 1 and lanes_of(b) == 1:
            return expr if a is expr.a and b is expr.b else type(expr)(a, b)
        if isinstance(expr, tirx.Div) and dtype_of(expr) == "float32" and lanes_of(b) == 1 and self._fused:
            return divided(a, b, self.lanes)
        if isinstance(expr, _DIVISION) and not _is_float(expr) and (constant(b) or 0) == 0:
            # A lane that is switched off may hold a zero divisor, and integer division has no masked form.
            raise NotVectorizableError("integer division by a variable")
        return _binary(type(expr), a, b)

    def _not(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        inner = self.value(expr.a, mask)
        known = constant(inner)
        return tirx.Not(inner) if known is None else tirx.IntImm("bool", 0 if known else 1)

    def _bitwise_not(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        return ir.prim.BitwiseNot(self.value(expr.a, mask))

    def _cast(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        value = self.value(expr.value, mask)
        if lanes_of(value) == 1:
            return tirx.Cast(dtype_of(expr), value)
        return tirx.Cast(vector_dtype(expr, self.lanes), value)

    def _let(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        value = self.value(expr.value, mask)
        return tirx.Let(self.bind(expr.var, value), value, self.value(expr.body, mask))

    def _select(self, expr: Any, mask: ir.Expr | None) -> ir.Expr:
        condition = self.value(expr.condition, mask)
        known = constant(condition)
        if known is not None:
            return self.value(expr.true_value if known else expr.false_value, mask)
        return self._choose(condition, self.value(expr.true_value, mask), self.value(expr.false_value, mask))

    def _choose(self, condition: ir.Expr, yes: ir.Expr, no: ir.Expr) -> ir.Expr:
        lanes = max(lanes_of(condition), lanes_of(yes), lanes_of(no))
        return tirx.Select(*(broadcast(part, lanes) for part in (condition, yes, no)))

    def _if_then_else(self, expr: ir.Call, mask: ir.Expr | None) -> ir.Expr:
        condition = self.value(expr.args[0], mask)
        known = constant(condition)
        if known is not None:
            return self.value(expr.args[1] if known else expr.args[2], mask)
        if lanes_of(condition) > 1:
            yes = self.value(expr.args[1], conjunction(mask, condition))
            no = self.value(expr.args[2], conjunction(mask, tirx.Not(condition)))
            return self._choose(condition, yes, no)
        yes, no = self.value(expr.args[1], mask), self.value(expr.args[2], mask)
        lanes = max(lanes_of(yes), lanes_of(no))
        return tirx.if_then_else(condition, broadcast(yes, lanes), broadcast(no, lanes))

    def _call(self, expr: ir.Call, mask: ir.Expr | None) -> ir.Expr:
        if not isinstance(expr.op, ir.Op):
            raise NotVectorizableError("call of a function")
        name = expr.op.name
        if name == "prim.if_then_else":
            return self._if_then_else(expr, mask)
        if name == LIKELY:
            return self.value(expr.args[0], mask)
        arguments = [self.value(argument, mask) for argument in expr.args]
        lanes = max((lanes_of(argument) for argument in arguments), default=1)
        if lanes == 1 and expr.op.get_attr("TCallEffectKind") in _PURE:
            return ir.Call(expr.op, arguments, expr.attrs, span=expr.span, ret_ty=expr.ty)
        if lanes == 1 or not (name in _ELEMENTWISE or expr.op.get_attr("TVectorizable")):
            raise NotVectorizableError(name)
        return ir.Call(expr.op, [broadcast(a, lanes) for a in arguments], ret_ty=vector_dtype(expr, lanes))


def divided(values: ir.Expr, divisor: ir.Expr, lanes: int) -> ir.Expr:
    """A float32 vector divided by a scalar without a vector division, which takes ten times as long.

    With the rounded reciprocal r and q = values * r, the quotient is q + (values - q * divisor) * r, correctly rounded
    where nothing underflows (Markstein, IBM Journal of R&D 34(1), 1990), that is for values of at least 2^-100. Where
    q is infinite, of which the correction is NaN, or zero, which would lose its sign, q is the quotient: then alone
    q + q is q. Very small and very large divisors are divided by as they are.
    """
    d, r, negative = (tirx.Var(name, "float32") for name in ("divisor", "reciprocal", "negative"))
    x, q, corrected = (tirx.Var(name, f"float32x{lanes}") for name in ("dividend", "quotient", "corrected"))
    one, zero = (tirx.FloatImm("float32", value) for value in (1.0, 0.0))
    low, high = (tirx.FloatImm("float32", value) for value in (2.0**-100, 2.0**100))
    rest = tirx.op.fma(q, broadcast(negative, lanes), x)
    final = tirx.EQ(tirx.Add(q, q), q)
    chosen = tirx.Select(final, q, corrected)
    fast = tirx.Let(corrected, tirx.op.fma(rest, broadcast(r, lanes), q), chosen)
    fast = tirx.Let(q, tirx.Mul(x, broadcast(r, lanes)), fast)
    fast = tirx.Let(r, tirx.Div(one, d), tirx.Let(negative, tirx.Sub(zero, d), fast))
    size = tirx.Select(tirx.LT(d, zero), tirx.Sub(zero, d), d)
    usual = tirx.And(tirx.GE(size, low), tirx.LE(size, high))
    either = tirx.if_then_else(usual, fast, tirx.Div(x, broadcast(d, lanes)))
    return tirx.Let(d, divisor, tirx.Let(x, values, either))


def _logical(kind: Any, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """`And` or `Or` with constants folded."""
    deciding = 0 if kind is tirx.And else 1
    for one, other in ((a, b), (b, a)):
        known = constant(one)
        if known is not None:
            return one if bool(known) == bool(deciding) else other
    return _binary(kind, a, b)


def _widened(index: ir.Expr, bits: int) -> ir.Expr:
    lanes = lanes_of(index)
    return index if int(index.ty.dtype.bits) == bits else tirx.Cast(f"int{bits}" + f"x{lanes}" * (lanes > 1), index)


def _is_float(expr: ir.Expr) -> bool:
    return dtype_of(expr).startswith(("float", "bfloat"))


def _unit_stride(buffer: ir.Var) -> bool:
    strides = list(buffer.ty.strides)
    return not strides or constant(strides[-1]) == 1


def _strides(buffer: ir.Var) -> list[ir.Expr]:
    strides = list(buffer.ty.strides)
    if strides:
        return strides
    step: ir.Expr = int_of(dtype_of(buffer.shape[-1]), 1)
    for extent in reversed(buffer.shape):
        strides.insert(0, step)
        step = step * extent
    return strides


_HANDLERS: Mapping[type, Callable[[VectorValues, Any, ir.Expr | None], ir.Expr]] = {
    ir.TensorLoad: VectorValues._load,
    ir.Call: VectorValues._call,
    tirx.Cast: VectorValues._cast,
    tirx.Let: VectorValues._let,
    tirx.Not: VectorValues._not,
    tirx.Select: VectorValues._select,
    ir.prim.BitwiseNot: VectorValues._bitwise_not,
    **dict.fromkeys(_BINARY, VectorValues._binary),
}
