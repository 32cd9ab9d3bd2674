"""Choosing values, and questions about whole tiles."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend import arith
from tile_core.frontend.values import Buffer, Element, Expr, Region, unwrap
from tile_core.ir.regions import constant
from tile_core.language import _operands
from tile_core.language._scalars import common
from tile_core.language.allocate import alloc_local

__all__ = ["Select", "all_of", "any_of", "if_then_else"]


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Expr:
    """`t` where `cond`, else `f`; only the chosen side is evaluated, so its loads need no guard of their own.

    A Python condition is decided while tracing.
    """
    then, other = common(t, f)
    if isinstance(cond, bool):
        return Expr(then if cond else other)
    return Expr(tirx.if_then_else(arith.truth(unwrap(cond)), then, other))


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Expr:
    """`true_value` where `condition`, else `false_value`; both are evaluated. Works lane by lane on vectors."""
    then, other = common(true_value, false_value)
    if isinstance(condition, bool):
        return Expr(then if condition else other)
    return Expr(tirx.Select(arith.truth(unwrap(condition)), then, other))


def any_of(buffer: Any, *conditions: Any) -> Expr:
    """Whether any element of a buffer or slice differs from 0; every axis but the last must have extent 1.

    Raises:
        OpArgumentError: a condition (write `or`), or another shape.
    """
    return _question(buffer, "any", conditions)


def all_of(buffer: Any, *conditions: Any) -> Expr:
    """Whether all elements of a buffer or slice differ from 0; every axis but the last must have extent 1.

    Raises:
        OpArgumentError: a condition (write `and`), or another shape.
    """
    return _question(buffer, "all", conditions)


def _question(value: Any, kind: str, conditions: tuple[Any, ...]) -> Expr:
    wrong = next((each for each in (value, *conditions) if not isinstance(each, Buffer | Region)), None)
    word = {"any": "or", "all": "and"}[kind]
    if wrong is not None:
        raise OpArgumentError(f"{kind}_of: {wrong!r} is no buffer or slice", remedy=f"combine conditions with `{word}`")
    if conditions:
        raise OpArgumentError(
            f"{kind}_of takes one buffer or slice, not {1 + len(conditions)}",
            remedy=f"ask about each and combine the answers with `{word}`",
        )
    source = _operands.region(value, f"{kind}_of")
    extents = [axis.extent for axis in source.region]
    if any(constant(extent) != 1 for extent in extents[:-1]):
        shape = ", ".join(map(str, extents))
        raise OpArgumentError(
            f"{kind}_of: {value} has shape ({shape}); all axes but the last must be 1", remedy="slice one row"
        )
    answer = alloc_local([1] * (len(extents) - 1 or 1), "bool")
    args = {"src": source, "dst": _operands.region(answer, f"{kind}_of")}
    _operands.emit("tile.reduce", args, kind=kind, dim=-1, clear=1)
    element = answer[(0,) * answer.ndim]
    assert isinstance(element, Element)
    return element
