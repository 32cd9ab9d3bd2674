"""Classes that live while tracing: `T.meta_class`, `T.inline`, and questions about bound names."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.macro import macro
from tile_core.frontend.values import Expr, Var, wrap

__all__ = ["get_let_value", "has_let_value", "inline", "meta_class"]

C = TypeVar("C", bound=type)
_STORES = frozenset({"STORE_SUBSCR", "STORE_ATTR"})


class Inlined:
    """A method whose body is traced at the call, like a `T.macro` with `self` bound."""

    def __init__(self, func: Callable[..., Any]) -> None:
        functools.update_wrapper(self, func)
        self._macro = macro(func)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self._macro, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._macro(*args, **kwargs)


def inline(func: Callable[..., Any]) -> Inlined:
    """Trace the method's body at its call, so that it may store and branch on device values.

    `T.meta_class` does this by itself for methods that store to an element or an attribute.
    """
    return Inlined(func)


def meta_class(cls: C) -> C:
    """A class whose instances exist while tracing and keep their state in `T.alloc_var` attributes.

    Methods that store to an element or an attribute are inlined where they are called; the others, and all with double
    underscores, stay plain Python.

    Example:
        @T.meta_class
        class Counter:
            def __init__(self):
                self.count = T.alloc_var("int32", 0)

            def step(self):
                self.count = self.count + 1
    """
    if not isinstance(cls, type):
        raise OpArgumentError(f"meta_class: {cls!r} is no class", remedy="use it as a class decorator")
    for name, member in list(vars(cls).items()):
        is_dunder = name.startswith("__") and name.endswith("__")
        if isinstance(member, types.FunctionType) and not is_dunder and _stores(member):
            setattr(cls, name, Inlined(member))
    return cls


def _stores(func: types.FunctionType) -> bool:
    return any(instruction.opname in _STORES for instruction in dis.get_instructions(func))


def _binding(var: Any) -> ir.Expr | None:
    if not isinstance(var, Var):
        return None
    for frame in reversed(current_builder().frames):
        for stmt in reversed(frame.stmts):
            if isinstance(stmt, S.Bind) and stmt.var.same_as(var.ir):
                return stmt.value
    return None


def has_let_value(var: Any) -> bool:
    """Whether `var` is a name bound to a value in the open scopes.

    Example:
        total = X[1] + X[2]
        assert T.has_let_value(total)
    """
    return _binding(var) is not None


def get_let_value(var: Any) -> Expr | None:
    """The value that `var` is bound to, `None` for loop variables and parameters.

    Example:
        total = X[1] + X[2]
        assert T.get_let_value(total) is not None
    """
    found = _binding(var)
    return None if found is None else wrap(found)
