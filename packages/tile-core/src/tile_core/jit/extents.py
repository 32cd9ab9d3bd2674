"""Extents and strides of parameters, as Python values.

A dimension of a parameter is a constant, a symbol or an expression over symbols. Calls evaluate them without TVM: to
explain a wrong argument, and to allocate outputs. Expressions become Python lambdas once, when the kernel is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as P

from tile_core.errors.runtime import UnsupportedParameterError

Values = Mapping[str, int]

_INFIX = {P.Add: "+", P.Sub: "-", P.Mul: "*", P.FloorDiv: "//", P.FloorMod: "%"}
_CALLS = {P.Min: "min", P.Max: "max", P.Div: "truncdiv", P.Mod: "truncmod"}


def truncdiv(a: int, b: int) -> int:
    """Integer division rounded toward zero, as in C."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def truncmod(a: int, b: int) -> int:
    """The remainder that goes with `truncdiv`."""
    return a - truncdiv(a, b) * b


_NAMES: dict[str, object] = {"__builtins__": {}, "min": min, "max": max, "truncdiv": truncdiv, "truncmod": truncmod}


def compiled(source: str) -> Callable[[Any], Any]:
    """The function that a lambda's source over extents stands for. The source is made here, never by a user."""
    function: Callable[[Any], Any] = eval(source, dict(_NAMES))  # noqa: S307
    return function


@dataclass(frozen=True)
class Extent:
    """One dimension or stride. `symbol` is set where a single symbol stands alone: only there is it solved."""

    text: str
    constant: int | None = None
    symbol: str | None = None
    symbols: frozenset[str] = frozenset()
    source: str = field(default="", repr=False)
    compute: Callable[[Values], int] = field(default=lambda values: 0, repr=False, compare=False)

    def value(self, values: Values) -> int | None:
        """The extent for known symbols, `None` while one of its symbols is unknown."""
        if self.constant is not None:
            return self.constant
        return self.compute(values) if self.symbols <= values.keys() else None

    def __str__(self) -> str:
        return self.text


class Symbols:
    """Names for the symbols of one program: TVM variables are told apart by identity, so equal names get a suffix."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self.bits: dict[str, int] = {}

    def name(self, var: Any) -> str:
        """The unique name of a variable."""
        if var not in self._names:
            taken = set(self._names.values())
            base = str(var.name_hint if hasattr(var, "name_hint") else var.name)
            name, suffix = base, 0
            while name in taken:
                suffix += 1
                name = f"{base}_{suffix}"
            self._names[var] = name
            self.bits[name] = int(var.ty.dtype.bits)
        return self._names[var]

    def extent(self, expr: Any) -> Extent:
        """The extent that a TVM expression stands for.

        Raises:
            UnsupportedParameterError: the expression holds something that is not integer arithmetic.
        """
        if isinstance(expr, int | tirx.IntImm):
            value = int(expr)
            return Extent(str(value), constant=value, source=str(value))
        used: set[str] = set()
        text, source = self._translate(expr, used)
        if isinstance(expr, ir.Var):
            (symbol,) = used
            return Extent(text, None, symbol, frozenset(used), source, lambda values: values[symbol])
        return Extent(text, None, None, frozenset(used), source, compiled(f"lambda v: {source}"))

    def _translate(self, expr: Any, used: set[str]) -> tuple[str, str]:
        """The expression for messages, and as Python source over the mapping `v`."""
        if isinstance(expr, int | tirx.IntImm):
            return str(int(expr)), str(int(expr))
        if isinstance(expr, ir.Var):
            name = self.name(expr)
            used.add(name)
            return name, f"v[{name!r}]"
        if isinstance(expr, P.Cast):
            return self._translate(expr.value, used)
        kind = type(expr)
        if kind in _INFIX or kind in _CALLS:
            (left, left_source), (right, right_source) = self._translate(expr.a, used), self._translate(expr.b, used)
            if kind in _INFIX:
                return f"({left} {_INFIX[kind]} {right})", f"({left_source} {_INFIX[kind]} {right_source})"
            return f"{_CALLS[kind]}({left}, {right})", f"{_CALLS[kind]}({left_source}, {right_source})"
        raise UnsupportedParameterError(
            f"the extent {expr} of a parameter is not integer arithmetic over symbols",
            remedy="extents may use +, -, *, //, %, min and max",
        )
