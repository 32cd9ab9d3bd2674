"""What rewritten code calls: its methods decide what is done now and what the kernel will do.

A value known while tracing keeps Python's own meaning; a device value makes IR. The scopes of control flow are in
`control.py`, the rules of assignment in `binding.py`.
"""

from __future__ import annotations

import builtins
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.frontend import (
    CallSignatureError,
    LoopArgumentError,
    LoopUseError,
    MembershipError,
    OperandError,
)
from tile_core.frontend import arith, binding, refusals
from tile_core.frontend.builder import Position, current_builder
from tile_core.frontend.control import (
    BranchScope,
    LoopScope,
    PlainScope,
    WhileScope,
    leave_loop,
    refuse_return,
)
from tile_core.frontend.loops import LoopNest, serial
from tile_core.frontend.markers import UNBOUND, Marker
from tile_core.frontend.places import Place
from tile_core.frontend.values import Expr, Value, pair, unwrap, wrap
from tile_core.ir import regions
from tile_core.ir.ops import tile_op

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
}


class Tracer:
    """The tracer of one rewritten function. `containers` are the Python containers that it reaches through globals."""

    UNBOUND = UNBOUND
    locals = builtins.locals
    slice = builtins.slice

    def __init__(self, places: Sequence[Place], containers: Mapping[str, Any]) -> None:
        self._places = places
        self._containers = containers

    def at(self, index: int) -> None:
        """The user's program has come to statement `index`."""
        place = self._places[index]
        current_builder().position = Position(place.span, place.tvm, place.targets)

    def use(self, name: str, value: Any) -> Any:
        """Read a name; refused where it holds a marker."""
        return value.read(name) if isinstance(value, Marker) else value

    # Assignment

    assign = staticmethod(binding.assign)
    assign_unread = staticmethod(binding.assign_unread)
    annotated = staticmethod(binding.annotated)
    converted = staticmethod(binding.converted)
    declare = staticmethod(binding.declare)
    unpack = staticmethod(binding.unpack)
    aug = staticmethod(binding.aug)
    aug_item = staticmethod(binding.aug_item)
    aug_attribute = staticmethod(binding.aug_attribute)
    set_item = staticmethod(binding.set_item)
    set_attribute = staticmethod(binding.set_attribute)

    # Expressions

    def and_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        """`a and b`: Python's where the left side is known, else a logical and of booleans or a choice of values."""
        return _junction(first, rest, stop_at=False)

    def or_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        """`a or b`."""
        return _junction(first, rest, stop_at=True)

    def not_(self, value: Any) -> Any:
        """`not a`."""
        return Expr(arith.negate(_scalar(value))) if isinstance(value, Value) else not value

    def ternary(self, condition: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`a if c else b`: only the chosen side is evaluated."""
        if not isinstance(condition, Value):
            return then() if condition else other()
        known = regions.constant(arith.truth(_scalar(condition)))
        if known is not None:
            return then() if known else other()
        with current_builder().expression_only():
            a, b = pair(then(), other())
        return Expr(arith.select(_scalar(condition), a, b))

    def compare(self, symbols: tuple[str, ...], left: Any, right: Any, *rest: Callable[[], Any]) -> Any:
        """A chained comparison, which stops at the first that fails, or a membership test."""
        if rest:
            right = binding.fixed("value", right)
        result = _compare(symbols[0], left, right)
        for symbol, operand in zip(symbols[1:], rest, strict=True):
            if not isinstance(result, Value) and not result:
                return result
            left, right = right, _evaluate(operand, isinstance(result, Value))
            result = _both(result, _compare(symbol, left, right))
        return result

    def bool_(self, function: Any, *arguments: Any) -> Any:
        """`bool(x)`: the truth of a device value is an expression."""
        if function is bool and len(arguments) == 1 and isinstance(arguments[0], Value):
            return Expr(arith.truth(_scalar(arguments[0])))
        return function(*arguments)

    def breakpoint_(self, function: Any, *arguments: Any) -> Any:
        """`breakpoint()` in a kernel stops the kernel when it runs; outside of one it stops the trace."""
        if function is not builtins.breakpoint or current_builder().kernel is None:
            return function(*arguments)
        current_builder().evaluate(ir.Call(tile_op("tile.breakpoint"), [], ret_ty="void"))
        return None

    def range_(self, function: Any, *arguments: Any) -> Any:
        """`range(...)`: with device values it is a device loop, which only `for` accepts."""
        if function is not range:
            return function(*arguments)
        if any(isinstance(argument, Expr) for argument in arguments):
            return serial(*arguments, what="range")
        try:
            return range(*arguments)
        except (TypeError, ValueError) as error:
            raise LoopArgumentError(
                f"range({', '.join(map(reprlib.repr, arguments))}): {error}",
                remedy="give one to three integers or integer expressions, and a step other than 0",
            ) from None

    def expression(self, value: Any) -> None:
        """A statement that is an expression: a call with an effect is kept."""
        if isinstance(value, LoopNest) or hasattr(value, "tile_opened_by"):
            word = getattr(value, "tile_opened_by", "for")
            raise LoopUseError(f"a statement that makes {value} and does not use it", remedy=f"write `{word} ...:`")
        if isinstance(value, tirx.PrimFunc) or (isinstance(value, ir.Call) and isinstance(value.op, tirx.PrimFunc)):
            raise CallSignatureError(
                "a traced function cannot call a T.prim_func", remedy="decorate the helper with @T.macro instead"
            )
        if isinstance(value, ir.Expr):
            value = wrap(value)
        if isinstance(value, Expr) and has_effect(value.ir):
            current_builder().evaluate(value.ir)

    # Control flow

    def branch(self, condition: Any, names: tuple[str, ...], scope: Mapping[str, Any]) -> BranchScope:
        """`if`."""
        device = isinstance(condition, Value)
        return BranchScope(_scalar(condition) if device else condition, device, names, scope, self._containers)

    def loop(self, iterable: Any, has_else: bool, names: tuple[str, ...], scope: Mapping[str, Any]) -> LoopScope:
        """`for`: a device loop for T.serial and its like and for range, a Python loop for any other iterable."""
        if isinstance(iterable, range):
            iterable = serial(iterable.start, iterable.stop, iterable.step, what="range")
        if isinstance(iterable, Value):
            iter(iterable)
        if hasattr(iterable, "tile_opened_by"):
            raise LoopUseError(f"{iterable} is no loop", remedy=f"write `{iterable.tile_opened_by} {iterable}(...)`")
        nest = iterable if isinstance(iterable, LoopNest) else None
        return LoopScope(nest, iterable, has_else, names, scope, self._containers)

    def while_(self, names: tuple[str, ...], scope: Mapping[str, Any]) -> WhileScope:
        """`while`."""
        return WhileScope(names, scope, self._containers)

    def enter(self, manager: Any, names: tuple[str, ...], scope: Mapping[str, Any]) -> PlainScope:
        """`with`. The attribute `tile_device_scope` of a manager says that the device decides about its body."""
        return PlainScope(manager, names, scope, self._containers)

    def break_(self) -> bool:
        """Whether Python is to break; in a device loop a statement is emitted instead."""
        return leave_loop("break", S.Break)

    def continue_(self) -> bool:
        """Whether Python is to continue."""
        return leave_loop("continue", S.Continue)

    def return_(self, value: Any) -> Any:
        """`return`, refused where it would be conditional at run time."""
        refuse_return("return")
        return value

    def raise_(self) -> None:
        """`raise`, refused in device code, where it would be raised while tracing."""
        if current_builder().in_device_code:
            raise refusals.device_raise()

    def assert_(self, condition: Any, message: Callable[[], Any], source: str) -> AssertionError | None:
        """`assert`: checked now, which gives what is to be raised, or by the kernel."""
        if not isinstance(condition, Value):
            if condition:
                return None
            detail = message()
            return AssertionError(source if detail is None else detail)
        detail = message()
        current_builder().assertion(arith.truth(_scalar(condition)), source if detail is None else str(detail))
        return None


def has_effect(node: ir.Expr) -> bool:
    """Whether an expression is a call that does something beyond its value."""
    if not isinstance(node, ir.Call):
        return False
    effect = node.op.get_attr("TCallEffectKind") if isinstance(node.op, ir.Op) else None
    return effect is None or int(effect) >= tirx.CallEffectKind.UpdateState.value


def _scalar(value: Any) -> Any:
    return unwrap(value)


def _evaluate(operand: Callable[[], Any], guarded: bool) -> Any:
    """An operand that may not be evaluated at run time: nothing can be emitted by it."""
    if not guarded:
        return operand()
    with current_builder().expression_only():
        return operand()


def _junction(first: Any, rest: Sequence[Callable[[], Any]], *, stop_at: bool) -> Any:
    """`and` (stops at false) or `or` (stops at true), with Python's values: `a or b` is `a` where that is true."""
    result = first
    for operand in rest:
        if isinstance(result, Value):
            result = _join(result, _evaluate(operand, guarded=True), stop_at)
        elif bool(result) is stop_at:
            return result
        else:
            result = operand()
    return result


def _join(left: Value, right: Any, stop_at: bool) -> Any:
    if not isinstance(right, Value) and (isinstance(right, bool) or not isinstance(right, int | float)):
        # A Python condition: it decides, or leaves the other side to decide.
        return stop_at if bool(right) is stop_at else left
    if not arith.dtype_of(unwrap(left)).is_bool:
        left = binding.bound("value", left)
    a, b = pair(left, right)
    if arith.dtype_of(a).is_bool and arith.dtype_of(b).is_bool:
        return Expr((tirx.Or if stop_at else tirx.And)(a, b))
    return Expr(arith.select(a, a, b) if stop_at else arith.select(a, b, a))


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, Value) and isinstance(b, Value):
        return Expr(tirx.And(arith.truth(_scalar(a)), arith.truth(_scalar(b))))
    if isinstance(a, Value):
        return a if b else b
    return b


def _compare(symbol: str, left: Any, right: Any) -> Any:
    if symbol not in ("in", "not in"):
        if symbol in ("==", "!="):
            _refuse_identity(symbol, left, right)
        return _COMPARE[symbol](left, right)
    if isinstance(left, Value) and not _holds_object(left, right):
        raise MembershipError(f"`in` on the device value {left}", remedy="write the comparisons: x == 1 or x == 2")
    return (left in right) is (symbol == "in")


def _refuse_identity(symbol: str, left: Any, right: Any) -> None:
    """Refuse `==` and `!=` that would silently compare identities: of a scalar with None, of two tiles."""
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Expr) and other is None:
            raise OperandError(
                f"`{symbol}` between the device value {value} and None",
                remedy="a device value is never None: ask for a Python argument with `is None`",
            )
        if isinstance(value, Value) and not isinstance(value, Expr) and other is not None:
            raise OperandError(
                f"`{symbol}` between {value} and {reprlib.repr(other)}",
                remedy="compare elements in a loop; `is` tells whether two names hold one buffer",
            )


def _holds_object(value: Value, container: Any) -> bool:
    """Whether membership compares identities: of a buffer, or in a dict or set."""
    return not isinstance(value, Expr) or isinstance(container, dict | set | frozenset)
