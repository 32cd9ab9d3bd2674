"""What a name holds when it holds no value: reading it says why and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tile_core.errors.base import SourceSpan
from tile_core.errors.frontend import LoopCarriedNameError, ReboundNameError, UndefinedNameError
from tile_core.frontend import refusals


class Marker:
    """Stands in a local name in place of a value."""

    def read(self, name: str) -> Any:
        """What reading the name gives: most markers refuse."""
        self.refuse(name)

    def refuse(self, name: str) -> NoReturn:
        """Raise the error of a read."""
        raise NotImplementedError


class Unbound(Marker):
    """Not assigned on the path taken."""

    def refuse(self, name: str) -> NoReturn:
        """Raise UndefinedNameError."""
        raise UndefinedNameError(
            f"the name {name} has no value here", remedy="assign it on every path before this line"
        )


@dataclass(frozen=True)
class Rebound(Marker):
    """Assigned in a device branch or loop that has ended."""

    where: str
    span: SourceSpan | None
    is_tile: bool = False

    def refuse(self, name: str) -> NoReturn:
        """Raise ReboundNameError."""
        line = "" if self.span is None else f" (line {self.span.line})"
        variable = f"make it a variable before the {self.where}: {name} = T.alloc_var(dtype, init=...)"
        raise ReboundNameError(
            f"{name} was assigned in a {self.where}{line}, which runs when the kernel does, and is used after it",
            remedy=f"allocate the tile before the {self.where}" if self.is_tile else variable,
        )


@dataclass(frozen=True)
class Carried(Marker):
    """Bound before a device loop whose body assigns it."""

    value: Any
    where: str

    def refuse(self, name: str) -> NoReturn:
        """Raise LoopCarriedNameError."""
        raise refusals.carried(name, self.where)


@dataclass
class CarriedVariable(Marker):
    """A `T.alloc_var` variable from before a device loop whose body assigns its name: it may be read and stored to.

    Making the name another variable after it was read is refused: a later iteration would mean that one.
    """

    value: Any
    where: str
    outer: CarriedVariable | None = None
    was_read: bool = False

    def read(self, name: str) -> Any:
        """The variable. A read in a loop is one in the loops around it."""
        self.was_read = True
        return self.value if self.outer is None else self.outer.read(name)

    def refuse(self, name: str) -> NoReturn:
        """Raise LoopCarriedNameError."""
        raise LoopCarriedNameError(
            f"{name} is read in a {self.where} and then made another variable, which the next iteration would read",
            remedy="give the new variable a name of its own",
        )


UNBOUND = Unbound()

_DEPTH = 3
_WIDTH = 4096


def _copy(value: Any, depth: int = _DEPTH) -> Any:
    """A shallow picture of a container: its items by identity, nested containers likewise."""
    if depth == 0 or not isinstance(value, list | dict | set):
        return value
    if len(value) > _WIDTH:
        return len(value)
    if isinstance(value, dict):
        return {key: _copy(item, depth - 1) for key, item in value.items()}
    return set(value) if isinstance(value, set) else [_copy(item, depth - 1) for item in value]


def _unchanged(value: Any, copy: Any, depth: int = _DEPTH) -> bool:
    if depth == 0 or not isinstance(value, list | dict | set):
        return value is copy
    if len(value) > _WIDTH:
        return bool(len(value) == copy)
    if not isinstance(copy, list | dict | set) or len(copy) != len(value):
        return False
    if isinstance(value, dict) and isinstance(copy, dict):
        return all(key in copy and _unchanged(item, copy[key], depth - 1) for key, item in value.items())
    if isinstance(value, set):
        return value == copy
    return all(_unchanged(item, old, depth - 1) for item, old in zip(value, copy, strict=True))


class PythonState:
    """The lists, dicts and sets within reach when a device region begins, to be compared when it ends."""

    def __init__(self, reachable: Mapping[str, Any]) -> None:
        self._kept = [(n, v, _copy(v)) for n, v in reachable.items() if isinstance(v, list | dict | set)]

    def check(self, where: str, span: SourceSpan | None) -> None:
        """Raise PythonStateError if one was changed."""
        for name, value, copy in self._kept:
            if not _unchanged(value, copy):
                raise refusals.changed_state(type(value).__name__, name, where, span)
