"""Views: other shapes and dtypes of the same memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.ops import ViewError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Value, unwrap
from tile_core.ir.regions import constant
from tile_core.language._operands import whole_buffer
from tile_core.ops.build import same

__all__ = ["reshape", "view"]


def reshape(src: Any, shape: Any) -> Buffer:
    """The same memory in another shape with as many elements.

    Raises:
        ViewError: the numbers of elements differ.

    Example:
        flat = T.reshape(tile, (1024,))
        T.copy(X, flat[0:64])
        assert tile[1, 0] == 32.0
    """
    buffer = whole_buffer(src, "reshape")
    return _view(buffer, "reshape", _sequence(shape), buffer.dtype, None)


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Buffer:
    """The same memory in another shape, dtype or with other strides (in elements), with as many bits.

    Without `shape`, a change of dtype scales the last axis.

    Raises:
        ViewError: the numbers of bits differ, or strides that do not fit.

    Example:
        bits = T.view(tile, (32, 64), "uint16")  # the two halves of each float
    """
    buffer = whole_buffer(src, "view")
    target = buffer.dtype if dtype is None else as_dtype(dtype)
    extents = _sequence(shape) if shape is not None else _rescaled(buffer, target)
    return _view(buffer, "view", extents, target, None if strides is None else _sequence(strides))


def _sequence(value: Any) -> list[Any]:
    return [value] if isinstance(value, int | Value | ir.Expr) else list(value)


def _width(dtype: DType) -> int:
    return dtype.bits * dtype.lanes


def _rescaled(buffer: Buffer, target: DType) -> list[Any]:
    last = buffer.shape[-1]
    if _width(buffer.dtype) == _width(target):
        return list(buffer.shape)
    bits = last * _width(buffer.dtype)
    if isinstance(bits, int) and bits % _width(target):
        raise ViewError(
            f"view: the last axis of {buffer.name} has {bits} bits, no multiple of {target}", remedy="give a shape"
        )
    return [*buffer.shape[:-1], bits // _width(target)]


def _view(buffer: Buffer, what: str, extents: list[Any], dtype: DType, strides: list[Any] | None) -> Buffer:
    shape = [unwrap(extent) for extent in extents]
    _check_bits(buffer, what, shape, dtype, strides)
    builder = current_builder()
    node = tirx.decl_buffer(
        shape,
        dtype.tvm,
        builder.fresh_name(f"{buffer.name}_{what}"),
        strides=None if strides is None else [unwrap(stride) for stride in strides],
        scope=buffer.scope,
    )
    builder.emit(S.DeclBuffer(node, data=buffer.ir.data, span=builder.span))
    return Buffer(node)


def _check_bits(buffer: Buffer, what: str, shape: Sequence[ir.Expr], dtype: DType, strides: list[Any] | None) -> None:
    if strides is not None and (len(strides) != len(shape) or any(isinstance(s, int) and s < 0 for s in strides)):
        raise ViewError(
            f"{what}: {len(strides)} strides {strides} for {len(shape)} axes",
            remedy="give one stride an axis, none below 0",
        )
    if buffer.strides and strides is None:
        raise ViewError(f"{what}: {buffer.name} has strides", remedy="copy it to a contiguous tile, or give strides=")
    before, after = _bits(list(buffer.ir.shape), buffer.dtype), _bits(shape, dtype)
    if not same(before, after):
        raise ViewError(
            f"{what}: {buffer.name} of shape {buffer.shape} and {buffer.dtype} has {before} bits, the view has {after}",
            remedy="choose a shape of the same size",
        )


def _bits(shape: Sequence[ir.Expr], dtype: DType) -> ir.Expr:
    fixed = [constant(extent) for extent in shape]
    known = math.prod(extent for extent in fixed if extent is not None)
    total: ir.Expr = tirx.IntImm("int64", known * _width(dtype))
    for extent in (extent for extent, value in zip(shape, fixed, strict=True) if value is None):
        total = total * tirx.Cast("int64", extent)
    return total
