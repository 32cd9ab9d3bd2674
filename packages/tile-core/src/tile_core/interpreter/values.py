"""What compiled expressions have in common: dtypes, conditionals that evaluate only the chosen side, division.

A value is a numpy scalar, or inside an iteration space an array that broadcasts to the space.
"""

from __future__ import annotations

import numpy as np
from tvm import ir

from tile_core.dtypes import DType
from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import DeviceDivisionError, NoReferenceMeaningError
from tile_core.interpreter import arithmetic
from tile_core.interpreter.arithmetic import Value
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import State


def dtype_of(expr: ir.Expr) -> DType:
    """The dtype of an expression.

    Raises:
        NoReferenceMeaningError: text, an address, or anything else that is no number.
    """
    dtype = getattr(expr.ty, "dtype", None)
    if dtype is None:
        raise no_meaning(f"{expr}, which is no number", None)
    return DType(str(dtype) or "void")


def no_meaning(what: str, span: SourceSpan | None) -> NoReferenceMeaningError:
    """The error for what numpy cannot express."""
    return NoReferenceMeaningError(
        f"the interpreter has no meaning for {what}",
        remedy="run the kernel on the backend it is written for",
        span=span,
    )


def guarded_division(
    function: arithmetic.Function, left: Evaluator, right: Evaluator, scope: Scope, *, vector: bool = False
) -> Evaluator:
    """A division that refuses to divide by zero. Its evaluation raises DeviceDivisionError."""
    place, span = scope.place, scope.span

    def evaluate(state: State) -> Value:
        divisor = right(state)
        zero = np.asarray(divisor == 0)
        if zero.any():
            active = zero.any(axis=-1) if vector else zero
            active = active if state.mask is None else state.space.spread(active) & state.mask
            if active.any():
                lane = np.unravel_index(int(np.argmax(active)), active.shape)
                where = place.describe(state, [int(at) for at in lane])
                raise DeviceDivisionError(f"an integer is divided by zero{where}", remedy="guard it", span=span)
            divisor = np.where(zero, np.ones((), zero.dtype).astype(np.asarray(divisor).dtype), divisor)
        return function(left(state), divisor)

    return evaluate


def merge(condition: Value, then: Value, other: Value, *, vector: bool) -> Value:
    """Each value where it is chosen; `vector` says that a scalar condition chooses whole vectors."""
    if np.ndim(condition) == 0:
        return then if condition else other
    return np.where(condition[..., None] if vector else condition, then, other)


def under(state: State, condition: Array, evaluate: Evaluator) -> Value:
    """`evaluate` for the iterations where `condition` holds; `None` where there are none."""
    saved = state.mask
    condition = state.space.spread(condition)
    narrowed = condition if saved is None else saved & condition
    if not narrowed.any():
        return None
    state.mask = narrowed
    try:
        return evaluate(state)
    finally:
        state.mask = saved


def choose(condition: Evaluator, then: Evaluator, other: Evaluator, *, vector: bool = False) -> Evaluator:
    """A conditional that evaluates only the chosen side."""

    def evaluate(state: State) -> Value:
        chosen = condition(state)
        if np.ndim(chosen) == 0:
            return then(state) if chosen else other(state)
        yes, no = under(state, chosen, then), under(state, ~chosen, other)
        if yes is None or no is None:
            return yes if no is None else no
        return merge(chosen, yes, no, vector=vector)

    return evaluate
