"""The values that a function takes from outside of its arguments, as part of what its kernels are kept under.

A trace reads globals, closure cells and attributes as they are then, and compiles them in. Were a kernel found by its
arguments alone, it would go on with the old values after one of them changed. So the functions that can be reached are
searched once for the names that they read, and every call compares those that hold plain values with what they held
before: mostly by identity, which costs little.

Values of other kinds (tensors, objects of classes that only methods read) are not followed. What is found is more than
what is read, which only costs a comparison.
"""

from __future__ import annotations

import builtins
import dis
import enum
import sys
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.runtime import CompileTimeArgumentError
from tile_core.jit.freeze import freeze

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), DType, enum.Enum)
_MUTABLE = (list, dict, set)
_SEQUENCES = (list, tuple, set, frozenset)
_MOST_ITEMS = 256
_MOST_FUNCTIONS = 256
_LIBRARIES = frozenset({*sys.stdlib_module_names, "numpy", "torch", "tvm", "tvm_ffi", "tilelang"})
"""Packages whose functions and attributes do not change."""

Place = Mapping[str, Any] | types.CellType
"""Where a name is looked up: globals, the attributes of an object, or a closure's cell."""


@dataclass(frozen=True)
class _Read:
    """A name that is read, and what it held."""

    place: Place
    name: str
    value: Any
    frozen: Hashable

    def unchanged(self) -> bool:
        """Whether the name holds what it held."""
        value = _held(self.place, self.name)
        if value is self.value and not isinstance(value, _MUTABLE):
            return True
        return self.frozen == _frozen(value)


class Captures:
    """What a function and the functions that it calls read from outside.

    >>> step = 2
    >>> captured = Captures(lambda x: x + step)
    >>> before = captured.token()
    >>> step = 3
    >>> captured.token() == before
    False
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func
        self._reads: tuple[_Read, ...] = ()
        self._token: Hashable = None

    def token(self) -> Hashable:
        """Equal for two moments at which the function reads the same values."""
        if self._token is None or not self.unchanged():
            self._reads = tuple(_Search(self._func).found)
            self._token = tuple(read.frozen for read in self._reads)
        return self._token

    def unchanged(self) -> bool:
        """Whether all values are those of the last token. In the way of every eager call, so it is a plain loop."""
        for read in self._reads:  # noqa: SIM110 - a generator would cost more than most of what it asks
            if not read.unchanged():
                return False
        return True


class _Search:
    """Every read of plain values in a function and in the functions that it reaches."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.found: list[_Read] = []
        self._seen: set[types.CodeType] = set()
        self._function(func)

    def _function(self, func: Any) -> None:
        code = func.__code__
        if code in self._seen or len(self._seen) >= _MOST_FUNCTIONS:
            return
        self._seen.add(code)
        names, attributes = _mentioned(code)
        for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=True):
            self._place(cell, name, attributes)
        for name in names:
            if name in func.__globals__ or not hasattr(builtins, name):
                self._place(func.__globals__, name, attributes)

    def _place(self, place: Place, name: str, attributes: Sequence[str] = ()) -> None:
        value = _held(place, name)
        inner = _python_function(value)
        frozen = _frozen(value) if inner is None else (name, value)
        if frozen is not None:
            self.found.append(_Read(place, name, value, frozen))
        if inner is not None:
            self._function(inner)
        elif frozen is None and not _is_foreign(value):
            held = getattr(value, "__dict__", {})
            for attribute in attributes:
                if attribute in held:
                    self._place(held, attribute)


def _held(place: Place, name: str) -> Any:
    if not isinstance(place, types.CellType):
        return place.get(name, _MISSING)
    try:
        return place.cell_contents
    except ValueError:
        return _MISSING


def _mentioned(code: types.CodeType) -> tuple[list[str], list[str]]:
    """The global names and the attributes that code and the code inside of it read."""
    names: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[instruction.argval] = None
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes[instruction.argval] = None
        elif isinstance(instruction.argval, types.CodeType):
            inner_names, inner_attributes = _mentioned(instruction.argval)
            names.update(dict.fromkeys(inner_names))
            attributes.update(dict.fromkeys(inner_attributes))
    return list(names), list(attributes)


def _python_function(value: Any) -> types.FunctionType | None:
    """A function written in Python, also behind a decorator of this package."""
    inner = getattr(value, "func", value)
    return inner if isinstance(inner, types.FunctionType) and not _is_library(inner.__module__) else None


def _is_foreign(value: Any) -> bool:
    return _is_library(value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__)


def _is_library(module: object) -> bool:
    root = str(module).partition(".")[0]
    return root != "builtins" and (root in _LIBRARIES or root.startswith("tile_"))


def _frozen(value: Any) -> Hashable | None:
    """A plain value in hashable form; `None` for any other."""
    if value is _MISSING:
        return ("missing",)
    try:
        return freeze(value) if _is_plain(value) else None
    except CompileTimeArgumentError:
        return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, dict):
        return len(value) <= _MOST_ITEMS and all(map(_is_plain, (*value.keys(), *value.values())))
    if isinstance(value, _SEQUENCES):
        return len(value) <= _MOST_ITEMS and all(map(_is_plain, value))
    return type(value).__module__ in ("torch", "numpy") and not hasattr(type(value), "__dlpack__")
