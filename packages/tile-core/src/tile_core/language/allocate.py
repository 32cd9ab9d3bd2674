"""Allocating tiles, variables, reducers and workspaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.ops import AllocationError
from tile_core.errors.suggest import did_you_mean
from tile_core.frontend.builder import Builder, current_builder
from tile_core.frontend.values import Buffer, Value, VarCell, unwrap
from tile_core.ir.regions import FRAGMENT, GLOBAL, LOCAL, REDUCER, SHARED, VAR
from tile_core.ir.visit import collect
from tile_core.language._operands import is_positive_int
from tile_core.language.reducer import declare as declare_reducer
from tile_core.ops.asynchronous import ARRIVALS, BARRIER

__all__ = [
    "alloc_barrier",
    "alloc_fragment",
    "alloc_global",
    "alloc_local",
    "alloc_reducer",
    "alloc_shared",
    "alloc_var",
    "allocate",
]

Shape = Any
"""An int, an expression, or a sequence of them."""

# A scope begins with its memory: `shared.dyn` and `shared.barrier` are shared.
_MEMORIES = ("global", "shared", "local")


def alloc_shared(shape: Shape, dtype: Any, scope: str = "shared.dyn") -> Buffer:
    """A tile in memory that the threads of a block share; uninitialised.

    Args:
        shape: an int or a sequence of ints and symbolic extents.
        scope: `"shared.dyn"`, or `"shared"` for memory of static size.

    Raises:
        AllocationError: a negative extent, an extent that is no integer.

    Example:
        weights = T.alloc_shared((32, 64), "float16")
        T.copy(A[0:32, :], weights)
    """
    return _allocate(shape, dtype, scope, "shared")


def alloc_fragment(shape: Shape, dtype: Any, scope: str = FRAGMENT) -> Buffer:
    """A tile spread over the registers of a block's threads by a layout that the compiler infers; uninitialised.

    Raises:
        AllocationError: a negative extent, an extent that is no integer.

    Example:
        scores = T.alloc_fragment((32, 32), "float32")
        T.copy(A[0, 0], scores)
    """
    return _allocate(shape, dtype, scope, "fragment")


def alloc_local(shape: Shape, dtype: Any, scope: str = LOCAL) -> Buffer:
    """An array that every thread has for itself; uninitialised.

    Raises:
        AllocationError: a negative extent, an extent that is no integer.

    Example:
        pair = T.alloc_local((2,), "float16")
        pair[0] = X[0]
        pair[1] = X[1]
    """
    return _allocate(shape, dtype, scope, "local")


def alloc_global(shape: Shape, dtype: Any, scope: str = GLOBAL) -> Buffer:
    """A workspace in global memory, one for all blocks, which lives as long as the call; uninitialised.

    Raises:
        AllocationError: a negative extent, an extent that is no integer.

    Example:
        partial = T.alloc_global((2, 32), "float32")  # all blocks of a call see it
        T.copy(row, partial[bx, 0])
    """
    builder = current_builder()
    buffer = _declare(shape, dtype, scope, builder.fresh_name("workspace"))
    builder.frames[0].stmts.append(S.AllocBuffer(buffer, span=builder.span))
    return Buffer(buffer)


def alloc_var(dtype: Any, *args: Any, scope: str = VAR, init: Any = None) -> VarCell:
    """A scalar variable of each thread: assigning to its name stores. It starts as `init`, 0 without one.

    Args:
        args: an initial value, a scope, or both in this order.
        init: the initial value: a number or an expression.

    Raises:
        AllocationError: two initial values, or positional arguments of another form.

    Example:
        best = T.alloc_var("float32", -T.infinity("float32"))
        for i in range(64):
            if X[i] > best:
                best = X[i]
        assert best == 63.0
    """
    given, scope = _variable_arguments(args, scope)
    if given is not None and init is not None:
        raise AllocationError("alloc_var: two initial values", remedy="give it once, positionally or as init=")
    start = init if given is None else given
    cell = VarCell(_allocate((1,), dtype, scope, "var"))
    cell.store(0 if start is None else start)
    return cell


def _variable_arguments(args: tuple[Any, ...], scope: str) -> tuple[Any, str]:
    if not args:
        return None, scope
    first, *rest = args
    if isinstance(first, str) and not rest:
        return None, first
    if not isinstance(first, str) and len(rest) <= 1 and all(isinstance(item, str) for item in rest):
        return first, (rest[0] if rest else scope)
    raise AllocationError(
        f"alloc_var: cannot read the arguments {args!r}",
        remedy="write alloc_var(dtype), alloc_var(dtype, init) or alloc_var(dtype, init, scope)",
    )


def alloc_reducer(shape: Shape, dtype: Any, op: str = "sum", replication: str | None = None) -> Buffer:
    """An accumulator that the iterations of `T.Parallel` contribute to; see `T.reducer_init`.

    Args: op: sum, max, min, bitand, bitor or bitxor. replication: `"all"` or `"none"` select TileLang's older form,
    whose epoch is opened by `T.clear` or `T.fill` and whose contributions are written `r[i] += x`.

    Raises:
        ReduceKindError, ReduceDTypeError: see their pages. AllocationError: an unknown replication.

    Example:
        total = T.alloc_reducer((1,), "float32", op="sum")
        T.reducer_init(total)
        for i in T.Parallel(64):
            total[0] += X[i]
        T.finalize_reducer(total)
        assert total[0] == 2016.0
    """
    if replication not in (None, "all", "none"):
        raise AllocationError(f"alloc_reducer: replication={replication!r}", remedy='use None, "all" or "none"')
    buffer = _allocate(shape, dtype, REDUCER, "reducer")
    declare_reducer(buffer, op)
    return buffer


def alloc_barrier(arrive_count: int | Sequence[int]) -> Buffer:
    """A barrier (or an array of them, for a list of counts) for the targets that have them in shared memory.

    Args:
        arrive_count: how many arrivals complete a phase, at least 1.

    Raises:
        AllocationError: a count below 1. The compiler refuses it on targets without such barriers.

    Example:
        arrived = T.alloc_barrier(32)
    """
    return barriers(arrive_count, BARRIER)


def barriers(arrive_count: int | Sequence[int], scope: str) -> Buffer:
    """The barriers of `alloc_barrier`, in a scope. Raises AllocationError."""
    counts = list(arrive_count) if isinstance(arrive_count, list | tuple) else [arrive_count]
    if not counts or not all(map(is_positive_int, counts)):
        raise AllocationError(f"alloc_barrier: arrive_count={arrive_count!r}", remedy="counts are ints of at least 1")
    return _allocate((len(counts),), "uint64", scope, "barrier", {ARRIVALS: counts})


def allocate(
    shape: Shape, dtype: Any = "float32", scope: str = GLOBAL, annotations: Mapping[str, Any] | None = None
) -> Buffer:
    """A buffer in any scope, as TIR spells it. `"global"` is a workspace for all blocks, as `T.alloc_global`.

    Example:
        line = T.allocate((64,), "float32", "shared")
        T.copy(X, line)
    """
    if scope == GLOBAL:
        return alloc_global(shape, dtype)
    return _allocate(shape, dtype, scope, "buffer", annotations)


def _allocate(shape: Shape, dtype: Any, scope: str, hint: str, annotations: Mapping[str, Any] | None = None) -> Buffer:
    builder = current_builder()
    _require_kernel(builder, hint)
    buffer = _declare(shape, dtype, scope, builder.fresh_name(hint))
    builder.emit(S.AllocBuffer(buffer, annotations=dict(annotations or {}), span=builder.span))
    return Buffer(buffer)


def _require_kernel(builder: Builder, hint: str) -> None:
    if builder.kernel is None:
        raise AllocationError(
            f"a {hint} buffer is allocated outside of `T.Kernel`",
            remedy="allocate it inside `with T.Kernel(...)`; only T.alloc_global is allowed outside",
        )


def _declare(shape: Shape, dtype: Any, scope: str, name: str) -> ir.Var:
    if not isinstance(scope, str):
        raise AllocationError(f"the scope of {name} is {scope!r}", remedy='scopes are named: "shared", "local", ...')
    if scope.partition(".")[0] not in _MEMORIES:
        raise AllocationError(
            f"the scope of {name} is {scope!r}, which is no memory",
            remedy=did_you_mean(scope, (*SHARED, FRAGMENT, LOCAL, VAR, GLOBAL), "leave it out for the usual one"),
        )
    extents = [_extent(extent, axis, name) for axis, extent in enumerate(_dimensions(shape, name))]
    return tirx.decl_buffer(extents, as_dtype(dtype).tvm, name, scope=scope)


def _dimensions(shape: Shape, name: str) -> Sequence[Any]:
    if isinstance(shape, int | Value | ir.Expr) or hasattr(shape, "__index__"):
        return [shape]
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise AllocationError(f"the shape of {name} is {shape!r}", remedy="give an int, or a tuple of ints and symbols")
    return list(shape)


def _extent(extent: Any, axis: int, name: str) -> ir.Expr:
    if isinstance(extent, bool) or (isinstance(extent, int) and extent < 0):
        raise AllocationError(f"axis {axis} of {name} has the extent {extent!r}", remedy="extents are at least 0")
    expr = unwrap(extent)
    dtype = DType(str(expr.ty.dtype))
    if not dtype.is_integer:
        raise AllocationError(
            f"axis {axis} of {name} has the extent {extent!r} of dtype {dtype}", remedy="extents are integers"
        )
    if collect(expr, ir.TensorLoad):
        raise AllocationError(
            f"the extent {axis} of {name} reads a buffer",
            remedy="take the largest size, or a scalar parameter",
        )
    return expr
