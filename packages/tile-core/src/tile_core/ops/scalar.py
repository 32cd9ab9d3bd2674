"""Scalar functions whose meaning TVM's own nodes do not give: a name, a numpy meaning and an expansion.

TVM's `Max`, `Min` and `!=` on floats follow the comparison of the target, so their result for NaN depends on the
backend and on the order of operands. The functions here say it once: `tile.max` and `tile.min` propagate NaN,
`tile.maxnum` and `tile.minnum` ignore it, all symmetrically. `tile.round` rounds halves away from zero where TVM's
`round` depends on the target, `tile.fmod` is C's, `tile.fma` may round once or twice. `tile.fast_exp` and its kin are
those functions with as few digits as the target likes; `tile.add_rz` and its kin round by a mode (`directed.py`). In
the IR they are pure calls; a backend that lists one prints it natively, every other one gets the expansion
(`passes/lower_scalar_ops.py`), and refuses a function that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.ops import tile_op
from tile_core.ops.build import dtype_of
from tile_core.ops.directed import ARITIES, MODES, Mode, meaning
from tile_core.ops.rounding import directed_cast

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScalarOp:
    """A pure function of scalars.

    `reference` maps numpy arrays (or scalars) of the operands' dtypes to the result, elementwise; `expand` rewrites a
    call into plain nodes, given its arguments and attributes. `None` is for what only
    hardware has. All operands and the result have one dtype unless `result` names another.
    """

    name: str
    arity: int
    reference: Callable[..., np.ndarray]
    expand: Callable[..., ir.Expr] | None
    result: str | None = None

    def call(self, *args: ir.Expr, span: ir.Span | None = None) -> ir.Expr:
        """A call to it on operands of one dtype."""
        dtype = dtype_of(args[0]) if self.result is None else as_dtype(self.result)
        return ir.Call(tile_op(self.name, pure=True), list(args), ret_ty=ir.PrimType(dtype.tvm), span=span)


def is_nan(value: ir.Expr) -> ir.Expr:
    """Whether a float is NaN. `x != x` is no alternative: TVM's simplifier and its LLVM comparison both lose it."""
    return tirx.isnan(value)


def _round_away(x: ir.Expr) -> ir.Expr:
    """Halves away from zero. The difference to the truncated value is exact, unlike x + 0.5."""
    whole = tirx.trunc(x)
    half, one = (tirx.FloatImm(x.ty, value) for value in (0.5, 1.0))
    up = tirx.GE(tirx.abs(tirx.Sub(x, whole)), half)
    return tirx.Select(up, tirx.Add(whole, tirx.copysign(one, x)), whole)


def _numpy_round_away(x: Any) -> Any:
    import numpy as np

    with np.errstate(invalid="ignore"):
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole).astype(x.dtype)


def _numpy_fma(x: Any, y: Any, z: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        wide = np.longdouble if x.dtype == np.float64 else np.float64
        return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(x.dtype)


def _pick(compare: Callable[[ir.Expr, ir.Expr], ir.Expr], *, ignore_nan: bool) -> Callable[..., ir.Expr]:
    def expand(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        # The comparison is false when either side is NaN, which picks b: right when b is to win, wrong otherwise.
        return tirx.Select(tirx.Or(compare(a, b), is_nan(b if ignore_nan else a)), a, b)

    return expand


def _numpy(name: str) -> Callable[..., Any]:
    def reference(*args: Any) -> Any:
        import numpy as np

        return getattr(np, name)(*args)

    return reference


def _numpy_reciprocal(x: Any) -> Any:
    """1 / x where numbers too small to be normal count as 0."""
    import numpy as np

    def flushed(value: Any) -> Any:
        return np.where(np.abs(value) < np.finfo(value.dtype).tiny, np.copysign(0, value), value).astype(value.dtype)

    with np.errstate(all="ignore"):
        return flushed(1 / flushed(np.asarray(x)))


def _numpy_find_first(x: Any) -> Any:
    import numpy as np

    lowest = np.asarray(np.bitwise_and(x, -x))
    unsigned = np.dtype(f"u{lowest.itemsize}").type
    below = lowest.view(unsigned) - unsigned(1)
    return np.where(x == 0, 0, np.bitwise_count(below) + 1).astype(np.int32)


def _find_first(x: ir.Expr) -> ir.Expr:
    """The position of the lowest 1 bit from 1 on: the bits below it, counted, and itself."""
    zero, one = tirx.IntImm(x.ty, 0), tirx.IntImm(x.ty, 1)
    lowest = tirx.bitwise_and(x, tirx.Sub(zero, x))
    unsigned = f"uint{x.ty.dtype.bits}"
    below = tirx.popcount(tirx.Cast(unsigned, tirx.Sub(lowest, one)))
    count = tirx.Add(tirx.Cast("int32", below), tirx.IntImm("int32", 1))
    return tirx.Select(tirx.EQ(x, zero), tirx.IntImm("int32", 0), count)


def _find_nth(mask: int, base: int, offset: int) -> int:
    """PTX ISA, `fns`: the bit that is the |offset|-th 1 from `base` upward, or downward for a negative offset."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    step, left = (1, offset) if offset > 0 else (-1, -offset)
    at = base
    while 0 <= at < 32:
        left -= mask >> at & 1
        if not left:
            return at
        at += step
    return 0xFFFFFFFF


def _numpy_find_nth(mask: Any, base: Any, offset: Any) -> Any:
    import numpy as np

    find = np.vectorize(lambda m, b, o: _find_nth(int(m), int(b), int(o)), otypes=[np.uint32])
    return find(mask, base, offset)[()]


_APPROXIMATED: Mapping[str, Callable[[ir.Expr], ir.Expr]] = {
    "exp": tirx.exp,
    "exp10": tirx.exp10,
    "log": tirx.log,
    "log2": tirx.log2,
    "log10": tirx.log10,
    "sin": tirx.sin,
    "cos": tirx.cos,
    "tan": tirx.tan,
}


def _numpy_power_of_10(x: Any) -> Any:
    import numpy as np

    return np.power(np.asarray(10, x.dtype), x)


_ROUNDED_TO_NEAREST: Mapping[str, Callable[..., ir.Expr]] = {
    "add": tirx.Add,
    "sub": tirx.Sub,
    "mul": tirx.Mul,
    "div": tirx.Div,
    "rcp": lambda x: tirx.Div(tirx.FloatImm(x.ty, 1.0), x),
    "sqrt": tirx.sqrt,
}
"""What plain nodes of float32 and float64 round to the nearest, on targets that do not fuse them."""


def _rounded(name: str, arity: int, mode: Mode) -> ScalarOp:
    expand = _ROUNDED_TO_NEAREST.get(name) if mode == "rn" else None
    return ScalarOp(f"tile.{name}_{mode}", arity, meaning(name, mode), expand)


SCALARS: Mapping[str, ScalarOp] = {
    op.name: op
    for op in (
        *(
            ScalarOp(f"tile.fast_{name}", 1, _numpy_power_of_10 if name == "exp10" else _numpy(name), expand)
            for name, expand in _APPROXIMATED.items()
        ),
        ScalarOp("tile.fast_rcp", 1, _numpy_reciprocal, lambda x: tirx.Div(tirx.FloatImm(x.ty, 1.0), x)),
        *(_rounded(name, arity, mode) for name, arity in ARITIES.items() for mode in MODES),
        ScalarOp("tile.read_only", 1, lambda x: x, lambda x: x),
        ScalarOp("tile.find_first", 1, _numpy_find_first, _find_first, "int32"),
        ScalarOp("tile.find_nth", 3, _numpy_find_nth, None, "uint32"),
        ScalarOp("tile.max", 2, _numpy("maximum"), _pick(tirx.GT, ignore_nan=False)),
        ScalarOp("tile.min", 2, _numpy("minimum"), _pick(tirx.LT, ignore_nan=False)),
        ScalarOp("tile.maxnum", 2, _numpy("fmax"), _pick(tirx.GT, ignore_nan=True)),
        ScalarOp("tile.minnum", 2, _numpy("fmin"), _pick(tirx.LT, ignore_nan=True)),
        ScalarOp("tile.round", 1, _numpy_round_away, _round_away),
        ScalarOp("tile.fmod", 2, _numpy("fmod"), tirx.Mod),
        ScalarOp("tile.fma", 3, _numpy_fma, lambda x, y, z: tirx.Add(tirx.Mul(x, y), z)),
    )
}

ASSOCIATIVE = frozenset({"tile.max", "tile.min", "tile.maxnum", "tile.minnum"})
"""Functions of two operands whose chains may be grouped otherwise, without another result than the sign of a zero."""

CAST = "tile.cast"
"""A conversion to a float with a rounding mode.

Arguments are the value and, for `rs`, random bits; attributes `rounding` and `saturate`. Its meaning is
`dtypes.casts.cast`. Where it has no expansion (`ops/rounding.py`), a target without it refuses the kernel.
"""


def cast_call(value: ir.Expr, dtype: DType, rounding: str, saturate: bool, random_bits: ir.Expr | None) -> ir.Expr:
    """A call of `tile.cast`."""
    return ir.Call(
        tile_op(CAST, pure=True),
        [value] if random_bits is None else [value, random_bits],
        attrs={"rounding": rounding, "saturate": int(saturate)},
        ret_ty=ir.PrimType(dtype.tvm),
    )


def expand_call(call: ir.Call, operands: Sequence[ir.Expr]) -> ir.Expr | None:
    """A call of a scalar function in plain nodes, with `operands` for its arguments; `None` without an expansion."""
    name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
    if name in SCALARS:
        expand = SCALARS[name].expand
        return None if expand is None else expand(*operands)
    if name == CAST:
        rounding, saturate = str(call.attrs["rounding"]), bool(call.attrs["saturate"])
        random_bits = operands[1] if len(operands) > 1 else None
        return directed_cast(operands[0], dtype_of(call), rounding, saturate=saturate, random_bits=random_bits)
    return None
