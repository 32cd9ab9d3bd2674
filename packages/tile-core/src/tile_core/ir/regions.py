"""Buffers and regions of a tile program."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

GLOBAL = "global"
SHARED = ("shared.dyn", "shared")
FRAGMENT = "local.fragment"
LOCAL = "local"
VAR = "local.var"
REDUCER = "local.reducer"


def scope(buffer: ir.Var) -> str:
    """The storage scope of a buffer variable; parameters are `global`."""
    return str(buffer.ty.storage_scope) or GLOBAL


def region(buffer: ir.Var, starts: Sequence[ir.Expr], extents: Sequence[ir.Expr]) -> ir.TensorRegion:
    """The region of `buffer` that begins at `starts`, `extents` long on each axis."""
    ranges = [ir.Range.from_min_extent(start, extent) for start, extent in zip(starts, extents, strict=True)]
    return tirx.BufferRegion(buffer, ranges)


def whole(buffer: ir.Var) -> ir.TensorRegion:
    """The region that covers all of `buffer`."""
    zeros = [tirx.IntImm(extent.ty, 0) for extent in buffer.shape]
    return region(buffer, zeros, list(buffer.shape))


def is_whole(region: ir.TensorRegion) -> bool:
    """Whether a region is all of a buffer of constant extents."""
    return all(
        constant(axis.min) == 0 and constant(axis.extent) is not None and constant(axis.extent) == constant(extent)
        for axis, extent in zip(region.region, region.source.shape, strict=True)
    )


def constant(value: object) -> int | None:
    """The Python int behind an integer constant, else `None`."""
    if isinstance(value, int):
        return value
    return int(value.value) if isinstance(value, tirx.IntImm) else None
