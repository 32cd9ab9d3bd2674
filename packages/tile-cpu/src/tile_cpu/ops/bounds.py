"""Whether a region lies within its tensor."""

from __future__ import annotations

from tvm import ir, tirx

from tile_core.ir.regions import GLOBAL, constant, scope


def inside_tensor(region: ir.TensorRegion) -> ir.Expr | None:
    """The condition that `region` lies within its tensor; `None` where it surely does. A tile has room for its own."""
    if scope(region.source) != GLOBAL:
        return None
    result: ir.Expr | None = None
    for axis, size in zip(region.region, region.source.shape, strict=True):
        for condition in (axis.min >= tirx.IntImm(str(axis.min.ty.dtype), 0), axis.min + axis.extent <= size):
            if constant(condition) != 1:
                result = condition if result is None else tirx.And(result, condition)
    return result
