"""Names for variables: the author's own, made legal and unique.

Names live in scopes, so that two loops one after another may both use `i`, while a name of an enclosing scope is never
taken again: shadowing would change the meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")


def legal(name: str, fallback: str = "v") -> str:
    """`name` as a C identifier: other characters become `_`, and reserved forms (`_X`, `a__b`, `9x`) are avoided.

    >>> legal("a.b"), legal("9x"), legal("__x"), legal("")
    ('a_b', 'v9x', 'x', 'v')
    """
    text = re.sub(r"__+", "_", _ILLEGAL.sub("_", name)).strip("_")
    if not text:
        return fallback
    return f"{fallback}{text}" if text[0].isdigit() else text


class Names:
    """Maps variables to names. `reserved` are words that no variable may have: keywords, types, functions."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        self._names: dict[Any, str] = {}
        self._scopes: list[list[tuple[Any, str | None]]] = [[]]
        self._taken: set[str] = set()
        self._used: set[str] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block: what is declared in it is forgotten at its end, and what it hid has its name back."""
        self._scopes.append([])
        try:
            yield
        finally:
            for var, before in reversed(self._scopes.pop()):
                self._taken.discard(self._names.pop(var))
                if before is not None:
                    self._names[var] = before

    def declare(self, var: Any, hint: str) -> str:
        """A fresh name for `var` in the current scope."""
        base = legal(hint)
        name, suffix = base, 0
        while name in self._reserved or name in self._taken:
            suffix += 1
            name = f"{base}_{suffix}"
        self._taken.add(name)
        self._scopes[-1].append((var, self._names.get(var)))
        self._names[var] = name
        return name

    def get(self, var: Any) -> str | None:
        """The name of `var`, `None` where it is not declared here."""
        name = self._names.get(var)
        if name is not None:
            self._used.add(name)
        return name

    def is_declared(self, var: Any) -> bool:
        """Whether `var` has a name here."""
        return var in self._names

    def is_used(self, name: str) -> bool:
        """Whether a name of the outermost scope was asked for."""
        return name in self._used
