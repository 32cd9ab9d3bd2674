"""`T.macro`: a function traced where it is called.

Scalar arguments are passed by value (evaluated once), buffers and regions are the caller's, and a parameter annotated
`T.Ref` takes a place that the macro may store to. Names are the macro's own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tile_core.errors.frontend import CallSignatureError, MacroArgumentError, ParameterError
from tile_core.frontend.binding import fixed, settled
from tile_core.frontend.builder import current_builder
from tile_core.frontend.positions import located, user_frame
from tile_core.frontend.rewrite import require_function, traced
from tile_core.frontend.values import Element, VarCell

__all__ = ["Macro", "Ref", "macro"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_DEPTH = 128
"""Macros within macros; more would be the C stack's end, which Python's limit on recursion does not know."""


class Ref:
    """Annotation of a macro parameter that is passed by reference: `def add(x: T.Ref, v): x += v`.

    The argument is a `T.alloc_var` variable or an element `A[i]`, whose indices are evaluated at the call. As a type it
    may be subscripted with the dtype, which is documentation.
    """

    def __new__(cls, place: Any) -> VarCell:  # type: ignore[misc]
        """The variable that stands for `place`."""
        return reference("place", place)

    def __class_getitem__(cls, dtype: Any) -> type[Ref]:
        """`T.Ref[dtype]` is `T.Ref`."""
        return cls


class ElementCell(VarCell):
    """An element handed over by reference: reading it loads, assigning to its name stores."""

    __slots__ = ()

    def __init__(self, element: Element) -> None:
        super().__init__(element.buffer, element.indices)
        self.bound = True


def reference(name: str, value: Any) -> VarCell:
    """A place as a variable.

    Raises:
        MacroArgumentError: a value that is no place.
    """
    if isinstance(value, VarCell):
        return value
    if isinstance(value, Element):
        indices = (fixed(f"{name}_index", index) for index in value.indices)
        return ElementCell(Element(value.buffer, tuple(indices)))
    raise MacroArgumentError(
        f"the argument of the parameter {name} (T.Ref) is {value!r}, which is no place",
        remedy="pass a T.alloc_var variable or an element such as A[i]",
    )


class Macro(Generic[P, R]):
    """A function that is traced into its caller."""

    def __init__(self, func: Callable[P, R], outer: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self._outer = outer
        self._signature = inspect.signature(func)

    @functools.cached_property
    def _references(self) -> frozenset[str]:
        """The parameters annotated `T.Ref`."""
        parameters = self._signature.parameters.items()
        return frozenset(name for name, parameter in parameters if self._resolved(parameter.annotation) is Ref)

    def _resolved(self, annotation: Any) -> Any:
        """An annotation's value. All but `T.Ref` are documentation, so one that does not evaluate is left."""
        from tile_core.frontend.prim_func import resolve

        try:
            return resolve(self.func, annotation, self._outer)
        except (AttributeError, NameError, ParameterError):
            return None

    @functools.cached_property
    def _body(self) -> Callable[..., R]:
        return traced(self.func)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Trace the body into the function being traced."""
        builder = current_builder()
        if builder.macros == MAX_DEPTH:
            raise RecursionError(f"more than {MAX_DEPTH} macros within each other")
        call = self._bind(*args, **kwargs)
        call.apply_defaults()
        position, entry_depth, loops = builder.position, builder.entry_depth, builder.loops
        for name, value in call.arguments.items():
            call.arguments[name] = self._passed(name, value)
        builder.entry_depth, builder.loops = len(builder.frames), []
        builder.macros += 1
        try:
            result = self._body(*call.args, **call.kwargs)
        finally:
            builder.macros -= 1
            builder.entry_depth, builder.loops = entry_depth, loops
        # Not where it raises: the error belongs to the macro's line.
        builder.position = position
        return result

    def _passed(self, name: str, value: Any) -> Any:
        if name in self._references:
            return reference(name, value)
        kind = self._signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(settled(name, item) for item in value)
        if kind is inspect.Parameter.VAR_KEYWORD:
            return {key: settled(key, item) for key, item in value.items()}
        return settled(name, value)

    def _bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CallSignatureError(
                f"the macro {self.func.__name__}{self._signature}: {error}",
                remedy="give the arguments that it declares",
            ) from None

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., R]:
        """The macro as a method."""
        return self if instance is None else functools.partial(self.__call__, instance)

    def __repr__(self) -> str:
        return f"<T.macro {self.func.__qualname__}>"


@overload
def macro(func: Callable[P, R]) -> Macro[P, R]: ...


@overload
def macro(func: None = None) -> Callable[[Callable[P, R]], Macro[P, R]]: ...


@located
def macro(func: Callable[..., Any] | None = None) -> Any:
    """Make a function one that is traced at each call; usable with and without parentheses.

    It may have defaults, keyword arguments and `*args`, return values, call other macros and itself (under a condition
    that is known while tracing). Methods work: the object's Python state belongs to the trace.

    Raises:
        MacroArgumentError: at a call, an argument that is no place for a `T.Ref` parameter.

    Example:
        @T.macro
        def add(total: T.Ref, value):
            if value > 0:
                total += value

        @T.prim_func
        def positive(A: T.Tensor((64,), "float32"), Sum: T.Tensor((1,), "float32")):
            with T.Kernel(1):
                s = T.alloc_var("float32", 0.0)
                for i in range(64):
                    add(s, A[i])
                Sum[0] = s
    """
    frame = user_frame()
    outer = {} if frame is None else frame.f_locals
    if func is None:
        return lambda given: Macro(given, outer)
    require_function(func, "T.macro")
    return Macro(func, outer)
