"""`tile.reduce`: combine a tile along one axis.

Attributes: `kind` (a key of `KINDS`), `dim`, `clear` (start from the identity, else from the old output),
`nan_propagate`.

Floats of at most 32 bits accumulate in float32, float64 in float64, integers in the narrowest integer dtype that
holds input and output; the result is converted to the output's dtype once. `max`, `min` and `absmax` ignore NaN (an
all-NaN row gives the identity) unless `nan_propagate`. The absolute value of the least integer of a signed dtype up
to 32 bits is taken in a wider dtype and wraps only when it is stored. An axis of extent 0 gives the identity: 0, -inf
or the least integer, …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.ops import ReduceDTypeError, ReduceKindError, ReduceShapeError
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import (
    Cell,
    Tile,
    cast,
    dtype_of,
    int32,
    number,
    parallel,
    serial,
    shape_text,
    widened,
)
from tile_core.ops.numerics import constant_array, convert
from tile_core.ops.rules import apart, equal_shapes, inside, without
from tile_core.ops.scalar import SCALARS

if TYPE_CHECKING:
    import numpy as np

Combine = Callable[[ir.Expr, ir.Expr, bool], ir.Expr]


@dataclass(frozen=True)
class Kind:
    """One way of combining.

    `identity(dtype)` is the neutral value; `combine(a, b, nan_propagate)` builds the expression;
    `ufunc(nan_propagate)` names the numpy ufunc. `absolute` applies `abs` to every input first; `integral` restricts
    it to integers and bool; `logical` turns every input into "differs from 0".
    """

    identity: Callable[[DType], float | int]
    combine: Combine
    ufunc: Callable[[bool], str]
    absolute: bool = False
    integral: bool = False
    logical: bool = False


def _least(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("-inf")
    return -(1 << (dtype.bits - 1)) if dtype.is_int else 0


def _greatest(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("inf")
    if dtype.is_bool:
        return 1
    return (1 << (dtype.bits - (1 if dtype.is_int else 0))) - 1


def _ones(dtype: DType) -> int:
    return 1 if dtype.is_bool else -1 if dtype.is_int else (1 << dtype.bits) - 1


def _always(value: int) -> Callable[[DType], int]:
    return lambda dtype: value


def _add(a: ir.Expr, b: ir.Expr, _nan_propagate: bool) -> ir.Expr:
    return tirx.Or(a, b) if dtype_of(a).is_bool else tirx.Add(a, b)


def _extreme(name: str, node: Any, logical: Any) -> Combine:
    def combine(a: ir.Expr, b: ir.Expr, nan_propagate: bool) -> ir.Expr:
        if not dtype_of(a).is_float:
            return logical(a, b) if dtype_of(a).is_bool else node(a, b)
        return SCALARS[f"tile.{name}" if nan_propagate else f"tile.{name}num"].call(a, b)

    return combine


def _bitwise(name: str, logical: Any) -> Combine:
    def combine(a: ir.Expr, b: ir.Expr, _nan_propagate: bool) -> ir.Expr:
        return logical(a, b) if dtype_of(a).is_bool else getattr(tirx, name)(a, b)

    return combine


def _ufunc(name: str, ignoring_nan: str | None = None) -> Callable[[bool], str]:
    return lambda nan_propagate: name if nan_propagate or ignoring_nan is None else ignoring_nan


_MAX, _MIN = _extreme("max", tirx.Max, tirx.Or), _extreme("min", tirx.Min, tirx.And)
_AND, _OR, _XOR = _bitwise("bitwise_and", tirx.And), _bitwise("bitwise_or", tirx.Or), _bitwise("bitwise_xor", tirx.NE)

KINDS: Mapping[str, Kind] = {
    "sum": Kind(_always(0), _add, _ufunc("add")),
    "abssum": Kind(_always(0), _add, _ufunc("add"), absolute=True),
    "max": Kind(_least, _MAX, _ufunc("maximum", "fmax")),
    "min": Kind(_greatest, _MIN, _ufunc("minimum", "fmin")),
    "absmax": Kind(_always(0), _MAX, _ufunc("maximum", "fmax"), absolute=True),
    "bitand": Kind(_ones, _AND, _ufunc("bitwise_and"), integral=True),
    "bitor": Kind(_always(0), _OR, _ufunc("bitwise_or"), integral=True),
    "bitxor": Kind(_always(0), _XOR, _ufunc("bitwise_xor"), integral=True),
    "any": Kind(_always(0), _OR, _ufunc("logical_or"), logical=True),
    "all": Kind(_always(1), _AND, _ufunc("logical_and"), logical=True),
}


def kind_of(call: OpCall) -> Kind:
    """The kind of a checked call."""
    return KINDS[str(call.attrs["kind"])]


def axis_of(call: OpCall) -> int:
    """The reduced axis of a checked call, not negative."""
    return int(call.attrs["dim"]) % Tile(call.region("src")).rank


def accumulation_dtype(kind: Kind, src: DType, dst: DType) -> DType:
    """The dtype in which `kind` combines values of `src` for an output of `dst`."""
    if kind.logical:
        return DType("bool")
    dtype = widened(src, dst)
    if dtype.is_integer and dtype.bits < 8:
        # Integers wrap, so sums in more bits have the same low bits.
        dtype = DType("uint8" if dtype.is_unsigned else "int8")
    if kind.absolute and dtype.is_int and dtype.bits <= 32:
        return DType("int32" if dtype.bits < 32 else "int64")
    return DType("int32") if dtype.is_bool and kind.combine is _add else dtype


def _identity(call: OpCall, dtype: DType) -> float:
    """Where a combination in `dtype` begins: a value that the operands' own dtype has."""
    own = widened(*(Tile(call.region(name)).dtype for name in ("src", "dst")))
    return kind_of(call).identity(own if own.is_integer and own.bits < 8 else dtype)


def check(call: OpCall) -> None:
    """Kind, axis, shape and dtype rules."""
    src, dst, name = Tile(call.region("src")), Tile(call.region("dst")), str(call.attrs["kind"])
    if name not in KINDS:
        raise ReduceKindError(
            f"reduce: unknown kind {name!r}", remedy=f"use one of {', '.join(KINDS)}", span=call.source_span
        )
    dim = int(call.attrs["dim"])
    if not -src.rank <= dim < src.rank:
        raise ReduceShapeError(
            f"reduce_{name}: dim={dim} is out of range for {src}, which has {src.rank} axes",
            remedy=f"use a dim from {-src.rank} to {src.rank - 1}",
            span=call.source_span,
        )
    _check_shapes(call, name, src, dst, dim % src.rank)
    if KINDS[name].integral and (src.dtype.is_float or dst.dtype.is_float):
        culprit = src if src.dtype.is_float else dst
        raise ReduceDTypeError(
            f"reduce_{name}: {culprit.name} is {culprit.dtype}; bit operations need integers or bool",
            remedy="reinterpret the values as integers first",
            span=call.source_span,
        )
    apart(call, dst, src)
    inside(call, src, dst)


def _check_shapes(call: OpCall, name: str, src: Tile, dst: Tile, axis: int) -> None:
    removed = without(src.extents, axis)
    kept = [*src.extents[:axis], int32(1), *src.extents[axis + 1 :]]
    accepted = [removed or [int32(1)], kept]
    if not any(equal_shapes(shape, dst.extents) for shape in accepted):
        shapes = " or ".join(dict.fromkeys(shape_text(shape) for shape in accepted))
        raise ReduceShapeError(
            f"reduce_{name}: reducing axis {axis} of {src} (shape {shape_text(src.extents)}) gives {shapes}, but "
            f"the output {dst} has shape {shape_text(dst.extents)}",
            remedy="allocate the output without the reduced axis, or with 1 in its place",
            span=call.source_span,
        )


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """The reduction in numpy, in the accumulation dtype."""
    import numpy as np

    src, dst, kind = Tile(call.region("src")), Tile(call.region("dst")), kind_of(call)
    dtype = accumulation_dtype(kind, src.dtype, dst.dtype)
    values, out = convert(operands["src"], src.dtype, dtype), operands["dst"]
    ufunc = getattr(np, kind.ufunc(bool(call.attrs.get("nan_propagate", 0))))
    with np.errstate(all="ignore"):
        if kind.absolute:
            values = np.abs(values)
        identity = constant_array(_identity(call, dtype), dtype)[()]
        total = ufunc.reduce(values, axis=axis_of(call), initial=identity, dtype=dtype.numpy).reshape(out.shape)
        if not call.attrs.get("clear", 1):
            total = ufunc(convert(out, dst.dtype, dtype), total)
    out[...] = convert(total, dtype, dst.dtype)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """`PARALLEL` over the axes of the output, one accumulator each, serial along the reduced axis."""
    src, dst, kind, axis = Tile(call.region("src")), Tile(call.region("dst")), kind_of(call), axis_of(call)
    dtype = accumulation_dtype(kind, src.dtype, dst.dtype)
    propagate = bool(call.attrs.get("nan_propagate", 0))
    keeps = dst.rank == src.rank

    def element(index: list[ir.Expr]) -> S.Stmt:
        total = Cell.new("acc", dtype)
        outer = [*index[:axis], *index[axis + 1 :]] if keeps else index[: src.rank - 1]

        def step(at: ir.Expr) -> S.Stmt:
            value = src.load([*outer[:axis], at, *outer[axis:]])
            return total.set(kind.combine(total.get(), _prepared(kind, value, dtype), propagate), call.span)

        start = number(_identity(call, dtype), dtype) if call.attrs.get("clear", 1) else cast(dst.load(index), dtype)
        return sequence(
            [
                total.declare(call.span),
                total.set(start, call.span),
                serial(src.extents[axis], step, span=call.span),
                dst.store(total.get(), index, call.span),
            ],
            call.span,
        )

    return parallel(dst.extents, element, call.span)


def _prepared(kind: Kind, value: ir.Expr, dtype: DType) -> ir.Expr:
    wide = cast(value, dtype)
    if not kind.absolute:
        return wide
    if dtype.is_float:
        return tirx.abs(wide)
    return tirx.Max(wide, tirx.Sub(number(0, dtype), wide)) if dtype.is_int else wide


REDUCE = TileOp(
    name="tile.reduce",
    operands=(Operand("src", "r"), Operand("dst", "rw")),
    check=check,
    reference=reference,
    lower=lower,
)
