"""Choosing values, and questions about whole tiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvm import tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend import arith
from tile_core.frontend.values import Buffer, Element, Expr, Region, unwrap
from tile_core.ir.regions import constant
from tile_core.language._operands import emit, region
from tile_core.language._scalars import common
from tile_core.language.allocate import alloc_local

__all__ = ["Select", "all_of", "any_of", "if_then_else"]


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Expr:
    """`t` where `cond`, else `f`; only the chosen side is evaluated, so its loads need no guard of their own.

    A Python condition is decided while tracing.

    Example:
        for i in T.Parallel(64):
            A[0, i] = T.if_then_else(i > 0, X[i - 1], 0.0)
        assert A[0, 1] == 0.0 and A[0, 63] == 62.0
    """
    then, other = common(t, f)
    if isinstance(cond, bool):
        return Expr(then if cond else other)
    return Expr(tirx.if_then_else(arith.truth(unwrap(cond)), then, other))


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Expr:
    """`true_value` where `condition`, else `false_value`; both are evaluated. Works lane by lane on vectors.

    Example:
        for i, j in T.Parallel(32, 32):
            acc[i, j] = T.Select(i >= j, acc[i, j], -T.infinity("float32"))
    """
    then, other = common(true_value, false_value)
    if isinstance(condition, bool):
        return Expr(then if condition else other)
    return Expr(tirx.Select(arith.truth(unwrap(condition)), then, other))


_WORDS = {"any_of": "or", "all_of": "and"}


def _one_question(function: Callable[[Any], Expr]) -> Callable[[Any], Expr]:
    """`function`, which several conditions are often given to, says so."""

    @functools.wraps(function)
    def ask(*buffers: Any, **named: Any) -> Expr:
        if len(buffers) + len(named) != 1 or named.keys() - {"buffer"}:
            name = function.__name__
            raise OpArgumentError(
                f"{name} takes one buffer or slice, not {len(buffers) + len(named)} things",
                remedy=f"combine conditions, and the answers about several buffers, with `{_WORDS[name]}`",
            )
        return function(*buffers, **named)

    return ask


@_one_question
def any_of(buffer: Any) -> Expr:
    """Whether any element of a buffer or slice differs from 0; every axis but the last must have extent 1.

    Raises:
        OpArgumentError: a condition (write `or`), or another shape.

    Example:
        assert T.any_of(I[0:4])
    """
    return _question(buffer, "any")


@_one_question
def all_of(buffer: Any) -> Expr:
    """Whether all elements of a buffer or slice differ from 0; every axis but the last must have extent 1.

    Raises:
        OpArgumentError: a condition (write `and`), or another shape.

    Example:
        assert T.all_of(I[1:4])
    """
    return _question(buffer, "all")


def _question(value: Any, kind: str) -> Expr:
    if not isinstance(value, Buffer | Region):
        raise OpArgumentError(
            f"{kind}_of: {value!r} is no buffer or slice", remedy=f"combine conditions with `{_WORDS[f'{kind}_of']}`"
        )
    source = region(value, f"{kind}_of")
    extents = [axis.extent for axis in source.region]
    if any(constant(extent) != 1 for extent in extents[:-1]):
        shape = ", ".join(map(str, extents))
        raise OpArgumentError(
            f"{kind}_of: {value} has shape ({shape}); all axes but the last must be 1", remedy="slice one row"
        )
    answer = alloc_local([1] * (len(extents) - 1 or 1), "bool")
    args = {"src": source, "dst": region(answer, f"{kind}_of")}
    emit("tile.reduce", args, kind=kind, dim=-1, clear=1)
    element = answer[(0,) * answer.ndim]
    assert isinstance(element, Element)
    return element
