"""What is known about integers at a point of a program: the one use of TVM's analyzer by the core passes.

Facts come from loop ranges, from the sizes of tensors (never negative, but possibly zero) and from the conditions of
the branches around a point. A condition that loads from memory is no fact: the memory may change inside of the
branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.sym.analyzer import ConstIntBound, ProofStrength
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.integers import is_index_arithmetic
from tile_core.ir.regions import constant

LIKELY = "prim.likely"
HUGE = 2**30
"""Constants from which index arithmetic may leave int32, whatever the sizes of the tensors."""
LONGEST_NAME = 64
"""How many nodes the value of a name may have to be known to the analyzer."""


def unmarked(condition: ir.Expr) -> ir.Expr:
    """The condition without the marks of `legalize_bounds` (`likely`), for reading it as a fact."""
    return visit.mutate(condition, (ir.Call, _unmark))


def _unmark(call: ir.Call, mutator: object) -> ir.Expr:
    if isinstance(call.op, ir.Op) and call.op.name == LIKELY:
        return mutator.mutate(call.args[0])  # type: ignore[attr-defined]
    return mutator.default_mutate(call)  # type: ignore[attr-defined]


def conjuncts(condition: ir.Expr) -> Iterator[ir.Expr]:
    """The operands of a conjunction, from left to right."""
    if isinstance(condition, E.And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


def reads_memory(expr: ir.Expr) -> bool:
    """Whether the value of `expr` can change between two evaluations: it loads, or calls something."""
    return bool(visit.collect(expr, ir.TensorLoad)) or any(
        not (isinstance(call.op, ir.Op) and call.op.name == LIKELY) for call in visit.collect(expr, ir.Call)
    )


class Ranges:
    """Facts about the integers of one function; `enter_loop`, `bind` and `assume` add those of a scope."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self.analyzer = Analyzer()
        self._sizes: dict[ir.Var, int] = {}
        self._data: set[ir.Var] = set()
        buffers = [param for param in func.params if tirx.buffer.is_buffer_var(param)]
        for buffer in buffers:
            self.declare(buffer)
        sizes = {extent for buffer in buffers for extent in buffer.shape if isinstance(extent, ir.Var)}
        # An argument that is no size of a tensor is any number, as the element of a tensor is.
        self._data.update(param for param in func.params if param not in sizes and param not in buffers)

    def declare(self, buffer: ir.Var) -> None:
        """Learn that the symbolic sizes of `buffer` are not negative."""
        for extent in buffer.shape:
            if isinstance(extent, ir.Var):
                largest = 2 ** (extent.ty.dtype.bits - 1) - 1
                self.analyzer.update(extent, ConstIntBound(0, largest))

    def enter_loop(self, loop: S.For) -> None:
        """Learn the range of a loop variable, for the body of the loop."""
        if loop.step is None or (isinstance(loop.step, E.IntImm) and loop.step.value > 0):
            self.analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    def bind(self, bind: S.Bind) -> None:
        """Learn the value of an immutable name.

        The analyzer replaces names by their values, so names of long arithmetic teach it nothing: a chain of them would
        grow exponentially. A remainder teaches its range alone: its value would only hide the name.
        """
        if isinstance(bind.value, E.FloorMod) and (divisor := constant(bind.value.b)) is not None and divisor > 0:
            self.analyzer.update(bind.var, ConstIntBound(0, divisor - 1))
            return
        if reads_memory(bind.value) or self._is_data(bind.value):
            self._data.add(bind.var)
        if not is_index_arithmetic(bind.value) or reads_memory(bind.value):
            return
        if not self._sound(bind.value)[0].same_as(bind.value):
            return
        self._sizes[bind.var] = self._size(bind.value)
        if self._sizes[bind.var] <= LONGEST_NAME:
            self.analyzer.bind(bind.var, bind.value)

    def _size(self, expr: ir.Expr) -> int:
        """The nodes of `expr` with the known names replaced by their values."""
        nodes = 0

        def count(node: ir.Expr) -> None:
            nonlocal nodes
            nodes += self._sizes.get(node, 1) if isinstance(node, ir.Var) else 1

        visit.walk(expr, (ir.Expr, count))
        return nodes

    @contextmanager
    def assume(self, *conditions: ir.Expr) -> Iterator[None]:
        """Facts that hold inside of the scope."""
        with ExitStack() as stack:
            for condition in conditions:
                for fact in conjuncts(unmarked(condition)):
                    # A comparison of floats is no fact to an analyzer that knows no NaN, and no custom types.
                    if not reads_memory(fact) and is_index_arithmetic(fact):
                        stack.enter_context(self.analyzer.constraint_scope(fact))
            yield

    def proves(self, condition: ir.Expr) -> bool:
        """Whether `condition` holds for every value that the known ranges allow."""
        known, _ = self._sound(condition)
        return bool(self.analyzer.can_prove(known) or self.analyzer.can_prove(known, ProofStrength.SYMBOLIC_BOUND))

    def _sound(self, expr: ir.Expr) -> tuple[ir.Expr, bool]:
        """`expr` with what the analyzer would take for granted replaced by unknown values; whether it reads memory.

        Unknown are arithmetic that may wrap and casts that may change the value. Written as a plain recursion: this
        runs for every guard, and setting up a structural mutation costs more than walking a short condition.
        """
        if isinstance(expr, ir.Var):
            return expr, expr in self._data
        if isinstance(expr, _BINARY):
            a, a_data = self._sound(expr.a)
            b, b_data = self._sound(expr.b)
            data = a_data or b_data
            if not a.same_as(expr.a) or not b.same_as(expr.b):
                expr = type(expr)(a, b)
            if isinstance(expr, _WRAPPING) and self._leaves_range(expr, data):
                return tirx.Var("wrapped", expr.ty), data
            return expr, data
        if isinstance(expr, E.Not):
            a, data = self._sound(expr.a)
            return (expr if a.same_as(expr.a) else E.Not(a)), data
        if isinstance(expr, E.Cast):
            value, data = self._sound(expr.value)
            if not _keeps_value(expr):
                return tirx.Var("converted", expr.ty), data
            return (expr if value.same_as(expr.value) else E.Cast(expr.ty, value)), data
        if isinstance(expr, E.Let) or (isinstance(expr, E.Select) and self._is_data(expr)):
            return tirx.Var("selected", expr.ty), True
        if isinstance(expr, E.Select):
            parts = [self._sound(part)[0] for part in (expr.condition, expr.true_value, expr.false_value)]
            return E.Select(*parts), True
        return expr, not isinstance(expr, E.IntImm) or _is_huge(expr)

    def may_wrap(self, expr: ir.Expr) -> bool:
        """Whether arithmetic may leave the range of its dtype.

        That of indices does not, by contract. What is computed from memory or from huge constants does, and so does
        every other dtype.
        """
        return self._leaves_range(expr, self._is_data(expr))

    def _leaves_range(self, expr: ir.Expr, is_data: bool) -> bool:
        if not _is_index(expr):
            return True
        if isinstance(expr, E.LShift) and not isinstance(expr.b, E.IntImm):
            return True
        if not is_data:
            return False
        bound, half = self.analyzer.const_int_bound(expr), 2 ** (int(expr.ty.dtype.bits) - 1)
        low, high = int(bound.min_value), int(bound.max_value)
        return low < -half or high >= half or not (low > ConstIntBound.NEG_INF and high < ConstIntBound.POS_INF)

    def _is_data(self, expr: ir.Expr) -> bool:
        if visit.collect(expr, ir.TensorLoad) or any(map(_is_huge, visit.collect(expr, E.IntImm))):
            return True
        return any(var in self._data for var in visit.collect(expr, ir.Var))

    def refutes(self, condition: ir.Expr) -> bool:
        """Whether `condition` is false for every value that the known ranges allow."""
        return self.proves(E.Not(condition))


_WRAPPING = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.LShift)
_BITWISE = (E.RShift, E.BitwiseAnd, E.BitwiseOr, E.BitwiseXor)
_BINARY = (*_WRAPPING, *_BITWISE, E.Min, E.Max, E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or)


def _is_huge(literal: E.IntImm) -> bool:
    return abs(int(literal.value)) >= HUGE


def _keeps_value(cast: E.Cast) -> bool:
    """Whether a cast gives the value that it got; the analyzer takes every cast to."""
    source, target = cast.value.ty.dtype, cast.ty.dtype
    return _holds(str(target), int(target.bits), str(source), int(source.bits)) or is_index_arithmetic(cast)


def _holds(target: str, target_bits: int, source: str, source_bits: int) -> bool:
    """Whether an integer dtype has every value of another one."""
    if not source.startswith(("int", "uint", "bool")) or not target.startswith(("int", "uint")):
        return False
    if source.startswith("int") == target.startswith("int"):
        return target_bits >= source_bits
    return target.startswith("int") and (target_bits > source_bits or source == "bool")


def _is_index(expr: ir.Expr) -> bool:
    """Whether `expr` has a dtype in which indices are computed, where nothing wraps."""
    return str(getattr(expr.ty, "dtype", "")) in ("int32", "int64")


def is_integer(expr: ir.Expr) -> bool:
    """Whether `expr` is an integer or boolean scalar, the only kind of expression that may be simplified."""
    dtype = getattr(expr.ty, "dtype", None)
    return dtype is not None and str(dtype).removeprefix("u").startswith(("int", "bool"))
