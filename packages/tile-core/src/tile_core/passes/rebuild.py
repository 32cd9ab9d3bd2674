"""Copies of statements with some fields changed, span and annotations kept."""

from __future__ import annotations

from typing import Any

from tvm.tirx import stmt as S

_LOOP_FIELDS = ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations", "step", "span")


def loop(original: S.For, **changes: Any) -> S.For:
    """`original` with `changes` to its fields."""
    fields = {name: getattr(original, name) for name in _LOOP_FIELDS} | changes
    fields["kind"] = S.ForKind(fields["kind"])
    return S.For(**fields)


def store(original: S.BufferStore, **changes: Any) -> S.BufferStore:
    """`original` with `changes` to its fields."""
    fields = {name: getattr(original, name) for name in ("buffer", "value", "indices", "span")} | changes
    return S.BufferStore(**fields)
