"""Atomic operations on memory that threads share. Their meaning: `tile_core.ops.atomic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import ir

from tile_core.errors.ops import AtomicOperandError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, Expr, Region, Var, unwrap, unwrap_stored
from tile_core.ir.ops import tile_op
from tile_core.language._operands import attributes, buffer_of, emit, pair
from tile_core.language._operands import region as region_of
from tile_core.ops import atomic as ops

__all__ = [
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
]

Annotations = Mapping[str, Any] | None


def atomic_add(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, annotations: Annotations = None
) -> Any:
    """`dst += value` as one indivisible step for each element.

    Args:
        dst: an element; or a buffer or region, whose threads share the work.
        value: a number or expression, or a tile of the destination's shape (unit axes are broadcast).
        memory_order: relaxed (default), consume, acquire, release, acq_rel or seq_cst.
        return_prev: give back the element before; for a single element only.

    Raises:
        AtomicOperandError: memory that threads do not share, a dtype without atomics, shapes that do not fit.
        MemoryOrderError: an unknown order.

    Example:
        for i in T.Parallel(64):
            T.atomic_add(I[i % 4], 1)
    """
    return _update("add", dst, value, memory_order, return_prev, annotations)


def atomic_max(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, annotations: Annotations = None
) -> Any:
    """`dst = max(dst, value)` as one indivisible step; NaN propagates. Arguments and errors as `T.atomic_add`.

    Example:
        for i in T.Parallel(64):
            T.atomic_max(X[0], X[i])
        assert X[0] == 63.0
    """
    return _update("max", dst, value, memory_order, return_prev, annotations)


def atomic_min(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, annotations: Annotations = None
) -> Any:
    """`dst = min(dst, value)` as one indivisible step; NaN propagates. Arguments and errors as `T.atomic_add`.

    Example:
        for i in T.Parallel(64):
            T.atomic_min(X[63], X[i])
        assert X[63] == 0.0
    """
    return _update("min", dst, value, memory_order, return_prev, annotations)


def atomic_or(dst: Any, value: Any, memory_order: str | None = None) -> None:
    """`dst |= value` on one integer element, as one indivisible step. Errors as `T.atomic_add`.

    Example:
        T.atomic_or(I[0], 1 << 5)
    """
    _element("atomic_or", dst)
    _update("or", dst, value, memory_order, False, None)


def _is_tile(value: Any) -> bool:
    return isinstance(value, Buffer | Region)


def _update(kind: str, dst: Any, value: Any, order: str | None, return_prev: bool, annotations: Annotations) -> Any:
    number = ops.memory_order(order, ops.MEMORY_ORDERS)
    what = f"atomic_{kind}"
    if isinstance(dst, Element) and not _is_tile(value):
        return _update_element(kind, dst, value, number, return_prev)
    if return_prev:
        raise AtomicOperandError(f"{what}: return_prev on a tile", remedy="update elements in T.Parallel")
    attrs = attributes(annotations, kind=kind, memory_order=number)
    if _is_tile(value) or isinstance(value, Element):
        src, target = pair(value, dst, what)
        emit("tile.atomic", {"src": src, "dst": target}, **attrs)
        return None
    args = {
        "dst": region_of(dst, f"{what}: dst"),
        "value": unwrap_stored(value, buffer_of(dst, what).dtype),
    }
    emit("tile.atomic_value", args, **attrs)
    return None


def _update_element(kind: str, dst: Element, value: Any, order: int, return_prev: bool) -> Expr | None:
    builder = current_builder()
    buffer = dst.buffer
    ops.check_element(kind, buffer.dtype, buffer.scope, buffer.name)
    index = [unwrap(position) for position in dst.indices]
    call = ops.rmw(buffer.ir, index, unwrap_stored(value, buffer.dtype), kind, order, builder.span)
    return _result(call, return_prev)


def _result(call: ir.Expr, wanted: bool) -> Expr | None:
    """Run the call here, once; its value is bound to a name where it is wanted."""
    builder = current_builder()
    if wanted:
        return Var(builder.bind("previous", call))
    builder.evaluate(call)
    return None


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Add two adjacent elements that start at `value` to the two that start at `dst`.

    Raises:
        AtomicOperandError: `return_prev`, or operands that are no elements or pairs.

    Example:
        T.atomic_addx2(X[0], X[2])  # X[0] += X[2], X[1] += X[3]
    """
    _vector_add(2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Add four adjacent elements that start at `value` to the four that start at `dst`. Errors as `T.atomic_addx2`.

    Example:
        T.atomic_addx4(X[0], X[4])
    """
    _vector_add(4, dst, value, return_prev)


def _vector_add(width: int, dst: Any, value: Any, return_prev: bool) -> None:
    what = f"atomic_addx{width}"
    if return_prev:
        raise AtomicOperandError(f"{what}: return_prev", remedy="add the elements one by one with T.atomic_add")
    args = {name: _vector(what, name, operand, width) for name, operand in (("src", value), ("dst", dst))}
    emit("tile.atomic", args, kind="add", memory_order=0, vector=width)


def _vector(what: str, name: str, value: Any, width: int) -> ir.TensorRegion:
    if not isinstance(value, Element | Buffer | Region):
        raise AtomicOperandError(f"{what}: {name} is {value!r}", remedy=f"pass the first of {width} adjacent elements")
    region = region_of(value, f"{what}: {name}", [width] if isinstance(value, Element) else None)
    extents = [int(getattr(axis.extent, "value", 0)) for axis in region.region]
    if extents[-1] != width or any(extent != 1 for extent in extents[:-1]):
        raise AtomicOperandError(
            f"{what}: {name} = {value} has shape {tuple(extents)}", remedy=f"pass {width} adjacent elements"
        )
    return region


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Expr:
    """The element `src`, read atomically.

    Args:
        src: an element of memory that threads share.
        memory_order: relaxed, consume, acquire or seq_cst.

    Raises:
        AtomicOperandError: no element, memory that threads do not share, a dtype without atomics.
        MemoryOrderError: another order.

    Example:
        ready = T.atomic_load(I[bx], memory_order="acquire")
    """
    order = ops.memory_order(memory_order, ops.LOAD_ORDERS)
    element = _element("atomic_load", src)
    call = ir.Call(
        tile_op("tile.atomic_load"),
        [ops.address(element.buffer.ir, [unwrap(index) for index in element.indices])],
        attrs={"memory_order": order},
        ret_ty=ir.PrimType(element.buffer.dtype.tvm),
        span=current_builder().span,
    )
    return Var(current_builder().bind("loaded", call))


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """Write `src` to the element `dst` atomically.

    Args:
        dst: an element of memory that threads share.
        src: a number or an expression, converted to the element's dtype.
        memory_order: relaxed, release or seq_cst.

    Raises:
        AtomicOperandError: no element, memory that threads do not share, a dtype without atomics.
        MemoryOrderError: another order.

    Example:
        T.atomic_store(I[bx], 1, memory_order="release")
    """
    order = ops.memory_order(memory_order, ops.STORE_ORDERS)
    element = _element("atomic_store", dst)
    builder = current_builder()
    builder.evaluate(
        ir.Call(
            tile_op("tile.atomic_store"),
            [
                ops.address(element.buffer.ir, [unwrap(index) for index in element.indices]),
                unwrap_stored(src, element.buffer.dtype),
            ],
            attrs={"memory_order": order},
            ret_ty="void",
            span=builder.span,
        )
    )


def _element(what: str, value: Any) -> Element:
    if not isinstance(value, Element):
        raise AtomicOperandError(f"{what}: {value!r} is no element", remedy="pass an element such as A[i]")
    ops.check_element(what.removeprefix("atomic_"), value.buffer.dtype, value.buffer.scope, value.buffer.name)
    return value
