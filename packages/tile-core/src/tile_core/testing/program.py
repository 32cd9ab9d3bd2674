"""A conformance program: a small kernel, its inputs and its right answer, written once and run on every backend.

A program is an ordinary function that takes a `Run`. It asks for what it needs by capability, never by the name of a
backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tile_core.testing.run import Run

Body = Callable[["Run"], None]
GROUPS = ("basic", "memory", "layout", "reduce", "scan", "atomics", "gemm", "dtypes", "errors", "host", "kernels")


@dataclass(frozen=True)
class Program:
    """One program. `id` is unique and stable; `case` names the row of the known compiler-breaking inputs it covers."""

    id: str
    group: str
    body: Body
    needs: frozenset[str]
    case: str = ""

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"program {self.id!r} is in group {self.group!r}; the groups are {', '.join(GROUPS)}")


class ProgramTable:
    """The programs of one module, in the order in which they are written."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.programs: list[Program] = []

    def __call__(self, *, case: str = "", needs: tuple[str, ...] = ()) -> Callable[[Body], Body]:
        """Decorator that adds a function to this table."""

        def add(body: Body) -> Body:
            name = f"{self.group}.{body.__name__}"
            self.programs.append(Program(name, self.group, body, frozenset(needs), case))
            return body

        return add
