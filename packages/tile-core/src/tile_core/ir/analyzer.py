"""TVM's analyzer behind a contract: what it cannot evaluate, it knows nothing about.

TVM asserts what it takes for granted: that no divisor is zero, that no constant leaves its dtype, that no range is
empty. Valid programs break all three, in code that is never reached or with indices far outside of a tensor, where a
guard decides. There the answer here is "unknown": an expression stays as it is and a condition is not proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tvm import ir, sym
from tvm.error import InternalError
from tvm.sym.analyzer import ConstIntBound, ModularSet, ProofStrength

R = TypeVar("R")
_UNBOUNDED = (int(ConstIntBound.NEG_INF), int(ConstIntBound.POS_INF))


class Analyzer:
    """Facts about integers, and what follows from them.

    >>> from tvm import tirx
    >>> i = tirx.Var("i", "int32")
    >>> Analyzer().simplify(tirx.FloorDiv(i, tirx.IntImm("int32", 0))).b.value
    0
    """

    def __init__(self) -> None:
        self._tvm = sym.Analyzer()

    def simplify(self, expr: ir.Expr) -> ir.Expr:
        """`expr` in simpler form."""
        return _or_else(expr, lambda: self._tvm.simplify(expr))

    def can_prove(self, condition: ir.Expr, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether `condition` follows from the facts."""
        return _or_else(False, lambda: bool(self._tvm.can_prove(condition, strength)))

    def const_int_bound(self, expr: ir.Expr) -> ConstIntBound:
        """The least and the largest value of `expr`."""
        return _or_else(ConstIntBound(*_UNBOUNDED), lambda: self._tvm.const_int_bound(expr))

    def modular_set(self, expr: ir.Expr) -> ModularSet:
        """What `expr` leaves when divided: it is `coeff * x + base` for some integer x."""
        return _or_else(ModularSet(1, 0), lambda: self._tvm.modular_set(expr))

    def is_multiple(self, expr: ir.Expr, factor: int) -> bool:
        """Whether `factor` divides `expr`, as far as the facts tell.

        >>> from tvm import tirx
        >>> [Analyzer().is_multiple(tirx.Var("i", "int32") * 8 + 4, factor) for factor in (4, 8)]
        [True, False]
        """
        found = self.modular_set(expr)
        return int(found.coeff) % factor == 0 and int(found.base) % factor == 0

    def bind(self, var: ir.Var, value: ir.Expr | ir.Range) -> None:
        """State the value or the range of `var`, in place of what was known of it."""
        _or_else(None, lambda: self._tvm.bind(var, value, True))

    def update(self, var: ir.Var, bound: ConstIntBound) -> None:
        """State the least and the largest value of `var`, in place of what was known of it."""
        _or_else(None, lambda: self._tvm.update(var, bound, True))

    @contextmanager
    def constraint_scope(self, fact: ir.Expr) -> Iterator[None]:
        """A condition that holds inside of the scope."""
        # A scope that fails while it is entered would leave half of the fact behind.
        if not _or_else(False, lambda: self._tvm.simplify(fact) is not None):
            yield
            return
        with self._tvm.constraint_scope(fact):
            yield


def _or_else(unknown: R, ask: Callable[[], R]) -> R:
    try:
        return ask()
    except (InternalError, ValueError):
        return unknown
