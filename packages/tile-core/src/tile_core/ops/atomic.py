"""Atomic read-modify-write: `tile.atomic` for tiles and the element intrinsics that it lowers to.

`tile.atomic` combines a source tile into a destination that threads share; `tile.atomic_value` combines one value
into every element. Attributes: `kind` (a key of `KINDS`) and `memory_order` (0 relaxed … 5 seq_cst, as C++ numbers
them).

The element intrinsics are expressions on an address, `tirx.address_of(buffer[index])`:

| intrinsic | arguments | value |
|---|---|---|
| `tile.atomic_rmw` | address, operand; attributes `kind`, `memory_order` | the element before |
| `tile.atomic_load` | address; attribute `memory_order` | the element |
| `tile.atomic_store` | address, value; attribute `memory_order` | none |

An element outside of a `global` tensor is skipped, which `passes/legalize_bounds.py` sees to. Values are converted to
the element's dtype first. Floats of 16 bits round after every single addition, as the hardware's do; `max` and `min`
propagate NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.ops import AtomicOperandError, MemoryOrderError
from tile_core.ir.ops import tile_op
from tile_core.ir.regions import FRAGMENT, LOCAL, VAR
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, cast, dtype_of, parallel, same
from tile_core.ops.copy import axes, check_fit, position
from tile_core.ops.numerics import convert
from tile_core.ops.rules import apart, identical, inside

if TYPE_CHECKING:
    import numpy as np

MEMORY_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")
STORE_ORDERS = ("relaxed", "release", "seq_cst")
KINDS: Mapping[str, str] = {"add": "add", "max": "maximum", "min": "minimum", "or": "bitwise_or"}
"""Kind to the numpy ufunc that is its meaning."""


def memory_order(name: str | None, allowed: tuple[str, ...], default: str = "relaxed") -> int:
    """The number of a memory order. Raises `MemoryOrderError`."""
    name = default if name is None else name
    if not isinstance(name, str) or name not in allowed:
        raise MemoryOrderError(f"memory order {name!r} is not allowed here", remedy=f"use one of {', '.join(allowed)}")
    return MEMORY_ORDERS.index(name)


def check_element(kind: str, dtype: DType, scope: str, name: str, span: Any = None) -> None:
    """Refuse destinations that threads do not share, and dtypes without the operation. Raises `AtomicOperandError`."""
    problem = ""
    if scope in (FRAGMENT, LOCAL, VAR):
        problem = f"{name} is {scope} memory, which threads do not share"
    elif dtype.is_bool or dtype.is_vector or dtype.bits < 8:
        problem = f"{name} is {dtype}, which has no atomic {kind}"
    elif kind == "or" and dtype.is_float:
        problem = f"{name} is {dtype}; a bitwise or needs integers"
    if problem:
        raise AtomicOperandError(
            f"atomic_{kind}: {problem}", remedy="use a global or shared destination of a number dtype", span=span
        )


def address(buffer: ir.Var, index: list[ir.Expr]) -> ir.Expr:
    """The address of an element."""
    return tirx.address_of(tirx.BufferLoad(buffer, index))


def rmw(buffer: ir.Var, index: list[ir.Expr], value: ir.Expr, kind: str, order: int, span: ir.Span | None) -> ir.Expr:
    """`tile.atomic_rmw` on one element; its value is the element before."""
    dtype = DType(str(buffer.dtype))
    return ir.Call(
        tile_op("tile.atomic_rmw"),
        [address(buffer, index), cast(value, dtype)],
        attrs={"kind": kind, "memory_order": order},
        ret_ty=ir.PrimType(dtype.tvm),
        span=span,
    )


def _kind(call: OpCall) -> str:
    return str(call.attrs["kind"])


def _check_destination(call: OpCall) -> Tile:
    dst = Tile(call.region("dst"))
    check_element(_kind(call), dst.dtype, dst.scope, dst.name, call.source_span)
    return dst


def _check_tile(call: OpCall) -> None:
    src, dst = Tile(call.region("src")), _check_destination(call)
    check_fit(call, src, dst, f"atomic_{_kind(call)}")
    for axis in axes(src, dst, to_tile=False):
        if not axis.broadcast and axis.dst is not None and not same(axis.extent, dst.extents[axis.dst]):
            raise AtomicOperandError(
                f"atomic_{_kind(call)}: {src} has {axis.extent} elements where {dst} has {dst.extents[axis.dst]}",
                remedy="slice both to one shape",
                span=call.source_span,
            )
    if not identical(src, dst):
        apart(call, dst, src)
    inside(call, src, dst)


def _check_value(call: OpCall) -> None:
    inside(call, _check_destination(call))


def _combined(call: OpCall, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    import numpy as np

    with np.errstate(all="ignore"):
        return getattr(np, KINDS[_kind(call)])(old, new).astype(old.dtype)


def _reference_tile(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """Every destination element that the domain reaches, combined with its source element."""
    import numpy as np

    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    domain = axes(src, dst, to_tile=False)
    target = operands["dst"].reshape([1 if axis.dst is None else operands["dst"].shape[axis.dst] for axis in domain])
    shape = [1 if axis.src is None else operands["src"].shape[axis.src] for axis in domain]
    values = convert(operands["src"].reshape(shape), src.dtype, dst.dtype)
    target[...] = _combined(call, target, np.broadcast_to(values, target.shape))


def _reference_value(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """Every element combined with the value."""
    dst = operands["dst"]
    value = convert(operands["value"], dtype_of(call.args["value"]), Tile(call.region("dst")).dtype)
    dst[...] = _combined(call, dst, value)


def _lower_tile(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest of element operations."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    domain = axes(src, dst, to_tile=False)

    def element(index: list[ir.Expr]) -> S.Stmt:
        read = position(src.rank, index, [None if axis.broadcast else axis.src for axis in domain])
        write = position(dst.rank, index, [axis.dst for axis in domain])
        return _update(call, dst, write, src.load(read))

    return parallel([axis.extent for axis in domain], element, call.span)


def _lower_value(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest of element operations."""
    dst = Tile(call.region("dst"))
    return parallel(dst.extents, lambda index: _update(call, dst, index, call.args["value"]), call.span)


def _update(call: OpCall, dst: Tile, index: list[ir.Expr], value: ir.Expr) -> S.Stmt:
    order = int(call.attrs.get("memory_order", 0))
    return S.Evaluate(rmw(dst.buffer, dst.indices(index), value, _kind(call), order, call.span), call.span)


ATOMIC = TileOp("tile.atomic", (Operand("src", "r"), Operand("dst", "rw")), _check_tile, _reference_tile, _lower_tile)
ATOMIC_VALUE = TileOp(
    "tile.atomic_value", (Operand("dst", "rw"), Operand("value", "value")), _check_value, _reference_value, _lower_value
)
