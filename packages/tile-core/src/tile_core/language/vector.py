"""Vector values: many lanes in one expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend import arith
from tile_core.frontend.values import Expr, unwrap
from tile_core.language._operands import is_positive_int

__all__ = ["Broadcast", "Ramp", "Shuffle", "broadcast", "extract_lane", "ramp"]


def Broadcast(value: Any, lanes: int, span: Any = None) -> Expr:
    """A vector of `lanes` copies of a scalar.

    Example:
        assert T.extract_lane(T.Broadcast(X[3], 4), 2) == 3.0
    """
    _require_lanes("Broadcast", lanes)
    return Expr(tirx.Broadcast(unwrap(value), lanes))


def Ramp(base: Any, stride: Any, lanes: int, span: Any = None) -> Expr:
    """The vector base, base + stride, …: a value, no index; `T.vectorized` reads and writes several elements at once.

    Example:
        assert T.extract_lane(T.Ramp(I[8], 2, 4), 3) == 14
    """
    _require_lanes("Ramp", lanes)
    start = unwrap(base)
    return Expr(tirx.Ramp(start, unwrap(stride, arith.dtype_of(start)), lanes))


def Shuffle(vectors: Sequence[Any], indices: Sequence[int], span: Any = None) -> Expr:
    """A vector of chosen lanes of several vectors, counted through all of them.

    Raises:
        OpArgumentError: `vectors` or `indices` is no sequence.

    Example:
        swapped = T.Shuffle([T.Ramp(I[8], 1, 2)], [1, 0])
        assert T.extract_lane(swapped, 0) == 9
    """
    for name, given in (("vectors", vectors), ("indices", indices)):
        if not isinstance(given, list | tuple):
            raise OpArgumentError(f"Shuffle: {name} is {given!r}", remedy="give a list")
    return Expr(tirx.Shuffle([unwrap(vector) for vector in vectors], [unwrap(index) for index in indices]))


broadcast = Broadcast
ramp = Ramp


def extract_lane(vector: Any, lane: int, span: Any = None) -> Expr:
    """One lane of a vector.

    Raises:
        OpArgumentError: the lane is no constant of the vector.

    Example:
        assert T.extract_lane(T.Ramp(I[8], 1, 4), 2) == 10
    """
    operand = unwrap(vector)
    lanes = arith.dtype_of(operand).lanes
    if type(lane) is not int or not 0 <= lane < lanes:
        raise OpArgumentError(f"extract_lane: lane {lane!r} of a vector of {lanes}", remedy="give a constant lane")
    return Expr(operand) if lanes == 1 else Expr(tirx.Shuffle([operand], [tirx.IntImm("int32", lane)]))


def _require_lanes(name: str, lanes: Any) -> None:
    if not is_positive_int(lanes):
        raise OpArgumentError(f"{name}: lanes={lanes!r}", remedy="give an int of at least 1")
