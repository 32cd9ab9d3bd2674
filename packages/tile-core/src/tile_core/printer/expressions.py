"""Handlers for expressions, the same in every C-family language."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.ir.prim import expr as P

from tile_core.ir.regions import constant
from tile_core.printer import literals, precedence
from tile_core.printer.language import ADDRESS, READ, ExprHandler, Helper, Node, Use
from tile_core.printer.precedence import Code, Infix, Precedence, call, cast, conditional, prefix

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer

FLOORDIV = Helper(
    "floordiv",
    """{inline} {type} {name}({type} a, {type} b) {{
  {type} q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}}""",
)
FLOORMOD = Helper(
    "floormod",
    """{inline} {type} {name}({type} a, {type} b) {{
  {type} r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}}""",
)
MIN = Helper("least", "{inline} {type} {name}({type} a, {type} b) {{\n  return a < b ? a : b;\n}}")
MAX = Helper("greatest", "{inline} {type} {name}({type} a, {type} b) {{\n  return a > b ? a : b;\n}}")

_WRAPPED = """{inline} {type} {name}({type} a, {type} b) {{
  return ({type})(({unsigned})a OPERATOR ({unsigned})b);
}}"""
ADD = Helper("wrapping_add", _WRAPPED.replace("OPERATOR", "+"))
SUB = Helper("wrapping_sub", _WRAPPED.replace("OPERATOR", "-"))
MUL = Helper("wrapping_mul", _WRAPPED.replace("OPERATOR", "*"))

_INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
_WITHIN = {
    "int": "x >= -{past} ? ({type})x : x == x ? ({type})(-({type}){most} - 1) : 0",
    "uint": "x > 0 ? ({type})x : 0",
}


def _saturated(real: str, kind: str) -> Helper:
    """A float of dtype `real` as an integer by the rule of `dtypes/casts.py`; C leaves what does not fit undefined."""
    type_name, suffix = ("double", "") if real == "float64" else ("float", "f")
    widths = {dtype: int(dtype.removeprefix(kind)) - (kind == "int") for dtype in _INTEGERS if dtype.startswith(kind)}
    return Helper(
        f"saturated_{real}",
        f"""{{inline}} {{type}} {{name}}({type_name} x) {{{{
  return x >= {{past}} ? ({{type}}){{most}} : {_WITHIN[kind]};
}}}}""",
        {
            "past": {dtype: f"{1 << width}.0{suffix}" for dtype, width in widths.items()},
            "most": {dtype: hex((1 << width) - 1) for dtype, width in widths.items()},
        },
    )


SATURATED = {(real, kind): _saturated(real, kind) for real in ("float32", "float64") for kind in _WITHIN}

HELPERS = (FLOORDIV, FLOORMOD, MIN, MAX, ADD, SUB, MUL, *SATURATED.values())

_LARGEST_INDEX = (1 << 31) - 1


def _is_float(printer: Printer, node: Node) -> bool:
    return not printer.dtype(node).startswith(("int", "uint", "bool"))


def _require_scalar(printer: Printer, node: Node) -> None:
    if node.ty.dtype.lanes != 1:
        raise printer.unprintable(printer.describe(node), node)


def _infix(operator: Infix, *, wraps: bool = False, sees: bool = False) -> ExprHandler:
    """A binary operator; `wraps` says that its result can leave the range of a type narrower than `int`.

    `sees` says that its result depends on more of its operands than their lowest bits.
    """

    def handler(printer: Printer, node: Node) -> Code:
        _require_scalar(printer, node)
        with printer.overflow.seen() if sees else nullcontext():
            code = operator.join(printer.expr(node.a), printer.expr(node.b))
        return printer.narrowed(code, node) if wraps else code

    return handler


def _sum(operator: Infix, helper: Helper) -> ExprHandler:
    """A sum or difference, which wraps where it leaves its range."""

    def handler(printer: Printer, node: Node) -> Code:
        _require_scalar(printer, node)
        left, right = printer.expr(node.a), printer.expr(node.b)
        if not _is_float(printer, node) and printer.overflow.wraps(node):
            return call(printer.helper(helper, printer.dtype(node), node), left, right)
        return printer.narrowed(operator.join(left, right), node)

    return handler


def _short_circuit(operator: Infix) -> ExprHandler:
    """`&&` or `||`: the right side may not be evaluated."""

    def handler(printer: Printer, node: Node) -> Code:
        _require_scalar(printer, node)
        left = printer.expr(node.a)
        with printer.conditional():
            right = printer.expr(node.b)
        return operator.join(left, right)

    return handler


def _multiply(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    left, right = printer.expr(node.a), printer.expr(node.b)
    if not _is_float(printer, node) and printer.overflow.wraps(node):
        return call(printer.helper(MUL, printer.dtype(node), node), left, right)
    if printer.dtype(node) == "uint16":
        # uint16 × uint16 is computed in int, which it can overflow.
        left = cast(printer.type_name("uint32", node), left)
    return printer.narrowed(precedence.MUL.join(left, right), node)


def _modulo(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    if _is_float(printer, node):
        raise printer.unprintable("the remainder of floats", node)
    with printer.overflow.seen():
        return precedence.MOD.join(printer.expr(node.a), printer.expr(node.b))


def _floor(helper: Helper, operator: Infix) -> ExprHandler:
    """Floor division or modulo: C's operator where no operand can be negative, a helper elsewhere."""

    def handler(printer: Printer, node: Node) -> Code:
        _require_scalar(printer, node)
        if _is_float(printer, node):
            raise printer.unprintable(printer.describe(node), node)
        with printer.overflow.seen():
            left, right = printer.expr(node.a), printer.expr(node.b)
        if printer.nonnegative(node.a) and printer.nonnegative(node.b):
            return operator.join(left, right)
        name = printer.helper(helper, printer.computed_in(printer.dtype(node)), node)
        return printer.narrowed(call(name, left, right), node)

    return handler


def _extreme(helper: Helper) -> ExprHandler:
    """Minimum or maximum of integers. TVM's nodes leave the result for NaN open, so floats are refused."""

    def handler(printer: Printer, node: Node) -> Code:
        _require_scalar(printer, node)
        if _is_float(printer, node):
            raise printer.unprintable(f"{printer.describe(node)}, whose result for NaN is not defined", node)
        name = printer.helper(helper, printer.computed_in(printer.dtype(node)), node)
        with printer.overflow.seen():
            return printer.narrowed(call(name, printer.expr(node.a), printer.expr(node.b)), node)

    return handler


def _not(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    return prefix("!", printer.expr(node.a))


def _invert(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    if printer.dtype(node) == "bool":
        return prefix("!", printer.expr(node.a))
    return printer.narrowed(prefix("~", printer.expr(node.a)), node)


def _select(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    return conditional(*map(printer.expr, (node.condition, node.true_value, node.false_value)))


def if_then_else(printer: Printer, node: Node) -> Code:
    """The call that evaluates only the chosen side."""
    _require_scalar(printer, node)
    condition, true, false = node.args
    first = printer.expr(condition)
    with printer.conditional():
        return conditional(first, printer.expr(true), printer.expr(false))


def _let(printer: Printer, node: Node) -> Code:
    printer.let(node.var, node.value)
    return printer.expr(node.body)


def _cast(printer: Printer, node: Node) -> Code:
    _require_scalar(printer, node)
    dtype, source = printer.dtype(node), printer.dtype(node.value)
    if dtype == source:
        return printer.expr(node.value)
    if dtype in _INTEGERS and source.startswith(("float", "bfloat")):
        real = "float64" if source == "float64" else "float32"
        value = node.value if source == real else P.Cast(real, node.value, node.span)
        helper = SATURATED[real, dtype.rstrip("0123456789")]
        return call(printer.helper(helper, dtype, node), printer.expr(value))
    with printer.overflow.seen():
        return cast(printer.type_name(dtype, node), printer.expr(node.value))


def _integer(printer: Printer, node: Node) -> Code:
    dtype = printer.dtype(node)
    if dtype == "bool":
        return Code("true" if int(node.value) else "false")
    bits = int(node.ty.dtype.bits)
    signed = dtype.startswith("int")
    value = int(node.value) if signed else int(node.value) % (1 << bits)
    return literals.integer(value, printer.language.suffixes.get(dtype, ""), bits, signed=signed)


def _float(printer: Printer, node: Node) -> Code:
    dtype = printer.dtype(node)
    rounding = literals.ROUND.get(dtype)
    if rounding is None:
        raise printer.unprintable(f"a constant of dtype {dtype}", node)
    value = rounding(float(node.value))
    if not math.isfinite(value):
        return _not_finite(printer, value, dtype, node)
    # A 16-bit value is exact as a float32 literal.
    text = literals.shortest(value, "float64" if dtype == "float64" else "float32")
    if dtype in printer.language.literals:
        return Code(printer.language.literals[dtype].format(value=text), Precedence.POSTFIX)
    return Code(
        text + printer.language.suffixes.get(dtype, ""), Precedence.UNARY if text[0] == "-" else Precedence.ATOM
    )


def _not_finite(printer: Printer, value: float, dtype: str, node: Node) -> Code:
    """Infinity and NaN are `float` words; other types get a cast, so that the expression keeps its type."""
    word = Code(printer.language.nan if math.isnan(value) else printer.language.infinity)
    signed = prefix("-", word) if value < 0 else word
    return signed if dtype == "float32" else cast(printer.type_name(dtype, node), signed)


def _variable(printer: Printer, node: Node) -> Code:
    return printer.variable(node)


def _load(printer: Printer, node: Node) -> Code:
    if node.ty.dtype.lanes != 1:
        if printer.language.vector_load is None:
            raise printer.unprintable(f"a load of {printer.dtype(node)}", node)
        return printer.language.vector_load(printer, node)
    return element(printer, node.source, node.indices)


def element(printer: Printer, buffer: Node, indices: Node, use: Use = READ) -> Code:
    """One element of a buffer as an lvalue, for `use`."""
    if printer.language.element is not None:
        return printer.language.element(printer, buffer, indices, use)
    return plain_element(printer, buffer, indices)


def plain_element(printer: Printer, buffer: Node, indices: Node) -> Code:
    """`name[offset]`, or the name of a scalar."""
    if printer.is_scalar(buffer):
        return Code(printer.name(buffer))
    return Code(f"{printer.name(buffer)}[{offset(printer, buffer, indices).text}]", Precedence.POSTFIX)


def place(printer: Printer, address: Node) -> Code:
    """The operand `address_of(buffer[indices])` of an operation that accounts for its accesses itself."""
    (load,) = address.args
    if printer.language.place is not None:
        return printer.language.place(printer, load.source, load.indices)
    return prefix("&", plain_element(printer, load.source, load.indices))


def offset(printer: Printer, buffer: Node, indices: Node) -> Code:
    """The flat index of an element, computed in 64 bits where a buffer may hold more than 2³¹ elements."""
    strides = _strides(buffer)
    wide = _is_wide(buffer)
    with printer.overflow.seen():
        terms = [
            _term(printer, index, factors, wide)
            for index, factors in zip(indices, strides, strict=True)
            if constant(index) != 0 and 0 not in factors
        ]
        if constant(buffer.ty.elem_offset) != 0:
            terms.append(printer.expr(buffer.ty.elem_offset))
    if not terms:
        return Code("0")
    total = terms[0]
    for term in terms[1:]:
        # Integer addition is associative, so a sum in a sum needs no parentheses.
        total = Code(f"{total.at(Precedence.ADD)} + {term.at(Precedence.ADD)}", Precedence.ADD)
    return total


def _term(printer: Printer, index: Node, factors: tuple[Node, ...], wide: bool) -> Code:
    code = printer.expr(index)
    known = math.prod(value for value in factors if isinstance(value, int))
    symbols = [printer.expr(value) for value in factors if not isinstance(value, int)]
    scale = [*symbols, *([Code(str(known))] if known != 1 else [])]
    if scale and wide and printer.dtype(index) != "int64":
        code = cast(printer.type_name("int64"), code)
    for factor in scale:
        code = precedence.MUL.join(code, factor)
    return code


def _strides(buffer: Node) -> list[tuple[Node, ...]]:
    """The stride of every axis as factors: ints and expressions."""

    def factor(extent: Node) -> Node:
        value = constant(extent)
        return extent if value is None else value

    if len(buffer.ty.strides):
        return [(factor(stride),) for stride in buffer.ty.strides]
    shape = [factor(extent) for extent in buffer.ty.shape]
    return [tuple(shape[axis + 1 :]) for axis in range(len(shape))]


def _is_wide(buffer: Node) -> bool:
    extents = [constant(extent) for extent in buffer.ty.shape]
    strides = [constant(stride) for stride in buffer.ty.strides]
    if None in extents or None in strides:
        return True
    known = [extent for extent in extents if extent is not None]
    if not strides:
        return math.prod(known) > _LARGEST_INDEX
    span = sum((extent - 1) * abs(stride or 0) for extent, stride in zip(known, strides, strict=True))
    return span > _LARGEST_INDEX


def _call(printer: Printer, node: Node) -> Code:
    is_vector = getattr(getattr(node.ty, "dtype", None), "lanes", 1) > 1
    if is_vector and str(getattr(node.op, "name", "")) not in printer.language.vector_calls:
        raise printer.unprintable(printer.describe(node), node)
    return printer.call(node)


def address_of(printer: Printer, node: Node) -> Code:
    """The address of an element."""
    (target,) = node.args
    if not isinstance(target, ir.TensorLoad):
        return Code(printer.name(target))
    return prefix("&", element(printer, target.source, target.indices, ADDRESS))


def likely(printer: Printer, node: Node) -> Code:
    """A hint that the condition usually holds; the condition itself."""
    return printer.expr(node.args[0])


EXPRESSIONS: Mapping[type, Callable[[Printer, Node], Code]] = MappingProxyType(
    {
        ir.Var: _variable,
        ir.TensorLoad: _load,
        ir.Call: _call,
        tirx.IntImm: _integer,
        tirx.FloatImm: _float,
        P.Add: _sum(precedence.ADD, ADD),
        P.Sub: _sum(precedence.SUB, SUB),
        P.Mul: _multiply,
        P.Div: _infix(precedence.DIV, wraps=True, sees=True),
        P.Mod: _modulo,
        P.FloorDiv: _floor(FLOORDIV, precedence.DIV),
        P.FloorMod: _floor(FLOORMOD, precedence.MOD),
        P.Min: _extreme(MIN),
        P.Max: _extreme(MAX),
        P.LShift: _infix(precedence.LEFT, wraps=True),
        P.RShift: _infix(precedence.RIGHT, sees=True),
        P.BitwiseAnd: _infix(precedence.BIT_AND),
        P.BitwiseXor: _infix(precedence.BIT_XOR),
        P.BitwiseOr: _infix(precedence.BIT_OR),
        P.BitwiseNot: _invert,
        P.EQ: _infix(precedence.EQUAL, sees=True),
        P.NE: _infix(precedence.NOT_EQUAL, sees=True),
        P.LT: _infix(precedence.LESS, sees=True),
        P.LE: _infix(precedence.LESS_EQUAL, sees=True),
        P.GT: _infix(precedence.GREATER, sees=True),
        P.GE: _infix(precedence.GREATER_EQUAL, sees=True),
        P.And: _short_circuit(precedence.AND),
        P.Or: _short_circuit(precedence.OR),
        P.Not: _not,
        P.Select: _select,
        P.Cast: _cast,
        P.Let: _let,
    }
)
