"""Whether a region lies within its tensor or tile."""

from __future__ import annotations

import functools

from tvm import ir, tirx

from tile_core.ir.regions import constant


def conditions(region: ir.TensorRegion) -> list[ir.Expr]:
    """What must hold for `region` to lie within its tensor or tile, without what constants show."""
    return [
        condition
        for axis, size in zip(region.region, region.source.shape, strict=True)
        for condition in (axis.min >= tirx.IntImm(str(axis.min.ty.dtype), 0), axis.min + axis.extent <= size)
        if constant(condition) != 1
    ]


def inside(region: ir.TensorRegion) -> ir.Expr | None:
    """The condition that `region` lies within its tensor or tile; `None` where it surely does."""
    found = conditions(region)
    return functools.reduce(tirx.And, found) if found else None
