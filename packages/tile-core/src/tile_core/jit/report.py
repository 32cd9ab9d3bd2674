"""What the compiler tells about a kernel: a mapping of JSON values that prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Report(Mapping[str, Any]):
    """The facts of one kernel, e.g. shared bytes, registers a thread, vector widths and guards.

    Works as a mapping (`report["shared_bytes"]`), converts with `dict(report)`, and prints as a table.

    >>> print(Report("add", {"vector_widths": {"A": 16, "B": 16}, "guards": 0}))
    add
      vector_widths
        A  16
        B  16
      guards  0
    """

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self.name = name
        self._facts = dict(facts)

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return f"Report({self.name!r}, {self._facts!r})"

    def __str__(self) -> str:
        return "\n".join([self.name, *_lines(self._facts, 1)])


def _lines(facts: Mapping[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    plain = [len(key) for key, value in facts.items() if not _nested(value)]
    width = max(plain, default=0)
    for key, value in facts.items():
        if not _nested(value):
            yield f"{indent}{key:<{width}}  {_cell(value)}"
            continue
        yield f"{indent}{key}"
        if isinstance(value, Mapping):
            yield from _lines(value, depth + 1)
        else:
            yield from (f"{indent}  {_row(item)}" for item in value)


def _nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value)


def _row(item: Any) -> str:
    return (
        ", ".join(f"{key} {_cell(value)}" for key, value in item.items()) if isinstance(item, Mapping) else _cell(item)
    )


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return _row(value) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
