"""`tile.copy`: move a region into another, converting each element.

**Pairing of axes.** With equal numbers of non-unit axes, those are paired in order; otherwise the regions are
right-aligned. A unit axis of the source is broadcast.

**Domain.** The extents come from the side that is nearer to the registers (fragment and local before shared before
global; the source on a tie). When the destination decides and the source slice is shorter, the rest of the tile
becomes the attribute `pad` (0 unless a safe value was annotated); when the source decides, elements beyond a shorter
destination slice of unknown length are skipped, and a larger destination keeps its other elements. A source that is
provably longer is refused.

**Bounds.** The lowering emits plain loads and stores; `passes/legalize_bounds.py` adds the guards that make reads
beyond a `global` tensor give the safe value and skip writes beyond it. Only the ends of *slices* are guarded here,
because no later pass knows them.

**Overlap.** A copy means "read everything, then write". Regions of one buffer that are not provably disjoint go
through a staging fragment; a copy of a region onto itself does nothing. Two differently named views of one storage
are not recognised.

**Conversion** is `T.cast`, by the table of `dtypes/casts.py`: float to integer truncates toward zero and saturates (NaN
gives 0), integers wrap, floats round to nearest even, narrow floats saturate, bool is "differs from 0".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import CopyOverlapError, CopyShapeError
from tile_core.ir.regions import FRAGMENT, GLOBAL, LOCAL, REDUCER, VAR, constant, whole
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, cast, difference, int32, number, parallel, shape_text
from tile_core.ops.numerics import constant_array, convert
from tile_core.ops.rules import identical, inside, provably_disjoint, significant

if TYPE_CHECKING:
    import numpy as np

_LEVELS = {GLOBAL: 0, FRAGMENT: 2, LOCAL: 2, VAR: 2, REDUCER: 2}

LAYOUT = "loop_layout"
"""Attribute of a copy whose author says which thread moves which element."""
BY_THREADS = "by_threads"
"""Attribute of a copy that loops make, no copy engine; so is one with `LAYOUT`."""


@dataclass(frozen=True)
class Axis:
    """One axis of the copy's domain and the axes of the two regions it walks; `None` where a side has none."""

    extent: ir.Expr
    src: int | None
    dst: int | None
    broadcast: bool


def _level(tile: Tile) -> int:
    return _LEVELS.get(tile.scope, 1)


def _pairs(src: Tile, dst: Tile) -> list[tuple[int | None, int | None]]:
    src_axes, dst_axes = list(significant(src.extents)), list(significant(dst.extents))
    if len(src_axes) == len(dst_axes):
        return list(zip(src_axes, dst_axes, strict=True))
    rank = max(src.rank, dst.rank)
    aligned = [(axis - (rank - src.rank), axis - (rank - dst.rank)) for axis in range(rank)]
    return [(s if s >= 0 else None, d if d >= 0 else None) for s, d in aligned]


def axes(src: Tile, dst: Tile, *, to_tile: bool | None = None) -> list[Axis]:
    """The domain of a copy from `src` to `dst`, outermost axis first; `to_tile` overrides which side decides."""
    to_tile = _level(dst) > _level(src) if to_tile is None else to_tile
    found = []
    for src_axis, dst_axis in _pairs(src, dst):
        src_extent = int32(1) if src_axis is None else src.extents[src_axis]
        dst_extent = int32(1) if dst_axis is None else dst.extents[dst_axis]
        broadcast = constant(src_extent) == 1 and constant(dst_extent) != 1
        extent = dst_extent if to_tile or broadcast else src_extent
        found.append(Axis(extent, src_axis, dst_axis, broadcast))
    return found


def check_fit(call: OpCall, src: Tile, dst: Tile, what: str = "copy") -> None:
    """Refuse a source that is provably longer than its destination. Raises `CopyShapeError`."""
    for src_axis, dst_axis in _pairs(src, dst):
        src_extent = int32(1) if src_axis is None else src.extents[src_axis]
        dst_extent = int32(1) if dst_axis is None else dst.extents[dst_axis]
        surplus = difference(src_extent, dst_extent)
        if (surplus is not None and surplus > 0) or (dst_axis is None and constant(src_extent) != 1):
            raise CopyShapeError(
                f"{what}: the source {src} does not fit into the destination {dst}: {src.name} has {src_extent} "
                f"elements on axis {src_axis}, {dst.name} has {dst_extent}"
                + ("" if dst_axis is None else f" on axis {dst_axis}")
                + f" (shapes {shape_text(src.extents)} and {shape_text(dst.extents)})",
                remedy="slice the source, or enlarge the destination",
                span=call.source_span,
            )


def check(call: OpCall) -> None:
    """Shape, bounds and overlap rules of the module's docstring."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    check_fit(call, src, dst)
    inside(call, src, dst)
    _check_layout(call, axes(src, dst))
    if _needs_staging(src, dst) and None in [constant(axis.extent) for axis in axes(src, dst)]:
        raise CopyOverlapError(
            f"copy: {src} and {dst} are regions of one buffer that may overlap, and their extents are not constants",
            remedy="copy through a tile of constant shape",
            span=call.source_span,
        )


def pads_with_zeros(call: OpCall) -> bool:
    """Whether elements of the destination that the source does not have become zeros, and no annotated safe value."""
    return constant(call.attrs.get("pad", 0)) == 0


def is_by_threads(call: OpCall) -> bool:
    """Whether no copy engine makes a copy."""
    return LAYOUT in call.attrs or BY_THREADS in call.attrs


def _check_layout(call: OpCall, domain: list[Axis]) -> None:
    """The author's layout of the loops covers them."""
    if LAYOUT not in call.attrs:
        return
    shape = [int(extent) for extent in call.attrs[LAYOUT]["shape"]]
    extents = [constant(axis.extent) for axis in domain]
    covered = len(shape) == len(extents) and all(
        extent is None or extent <= size for extent, size in zip(extents, shape, strict=True)
    )
    if not covered:
        raise CopyShapeError(
            f"copy: loop_layout of shape {tuple(shape)} does not cover {shape_text([axis.extent for axis in domain])}",
            remedy="give a fragment with one dimension for each axis that is copied, at least as long",
            span=call.source_span,
        )


def _needs_staging(src: Tile, dst: Tile) -> bool:
    return src.buffer.same_as(dst.buffer) and not identical(src, dst) and not provably_disjoint(src, dst)


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """Copy in numpy: the domain of `axes`, padded or clipped as the module's docstring says."""
    import numpy as np

    src, dst = operands["src"], operands["dst"]
    src_tile, dst_tile = Tile(call.region("src")), Tile(call.region("dst"))
    domain = axes(src_tile, dst_tile)
    shape = [1 if axis.src is None else src.shape[axis.src] for axis in domain]
    target = dst.reshape([1 if axis.dst is None else dst.shape[axis.dst] for axis in domain])
    values = convert(src.reshape(shape), src_tile.dtype, dst_tile.dtype)
    for axis, (have, want, broadcast) in enumerate(
        zip(shape, target.shape, (a.broadcast for a in domain), strict=True)
    ):
        if broadcast:
            values = np.broadcast_to(values, [*values.shape[:axis], want, *values.shape[axis + 1 :]])
        elif have > want:
            values = values.take(range(want), axis=axis)
        elif have < want and _level(dst_tile) > _level(src_tile):
            pad = [(0, want - have) if i == axis else (0, 0) for i in range(len(shape))]
            fill = convert(constant_array(call.attrs.get("pad", 0), src_tile.dtype), src_tile.dtype, dst_tile.dtype)
            values = np.pad(values, pad, constant_values=fill)
    target[tuple(slice(0, size) for size in values.shape)] = values


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest of element moves; through a staging fragment where the regions may overlap."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    if src.buffer.same_as(dst.buffer) and identical(src, dst):
        return sequence([], call.span)
    if not _needs_staging(src, dst):
        return _move(src, dst, axes(src, dst), call)
    stage = tirx.decl_buffer(
        [axis.extent for axis in axes(src, dst)], src.dtype.tvm, f"{src.name}_stage", scope=FRAGMENT
    )
    through = Tile(whole(stage))
    steps = [S.AllocBuffer(stage, span=call.span)]
    steps += [_move(src, through, _staged(axes(src, dst), into=True), call)]
    steps += [_move(through, dst, _staged(axes(src, dst), into=False), call)]
    return sequence(steps, call.span)


def _staged(domain: list[Axis], *, into: bool) -> list[Axis]:
    if into:
        return [Axis(axis.extent, axis.src, position, axis.broadcast) for position, axis in enumerate(domain)]
    return [Axis(axis.extent, position, axis.dst, False) for position, axis in enumerate(domain)]


def _move(src: Tile, dst: Tile, domain: list[Axis], call: OpCall) -> S.Stmt:
    def body(index: list[ir.Expr]) -> S.Stmt:
        read = position(src.rank, index, [None if axis.broadcast else axis.src for axis in domain])
        value = cast(src.load(read), dst.dtype)
        readable = _within(domain, index, [None if a.broadcast else a.src for a in domain], src.extents)
        if readable is not None:
            value = tirx.if_then_else(readable, value, cast(number(call.attrs.get("pad", 0), src.dtype), dst.dtype))
        store = dst.store(value, position(dst.rank, index, [axis.dst for axis in domain]), call.span)
        writable = _within(domain, index, [axis.dst for axis in domain], dst.extents)
        return store if writable is None else S.IfThenElse(writable, store, None, call.span)

    given = {f"tile.{LAYOUT}": call.attrs[LAYOUT]} if LAYOUT in call.attrs else {}
    return parallel([axis.extent for axis in domain], body, call.span, given)


def position(rank: int, index: Sequence[ir.Expr], walked: Sequence[int | None]) -> list[ir.Expr]:
    """Where each region axis is walked by an index of the domain; other axes stay at 0."""
    found = [int32(0)] * rank
    for at, axis in zip(index, walked, strict=True):
        if axis is not None:
            found[axis] = at
    return found


def _within(
    domain: Sequence[Axis], index: Sequence[ir.Expr], walked: Sequence[int | None], extents: Sequence[ir.Expr]
) -> ir.Expr | None:
    """The condition under which `index` is inside a region, `None` where that is proven."""
    guards = [
        at < extents[axis]
        for step, at, axis in zip(domain, index, walked, strict=True)
        if axis is not None and not _covers(extents[axis], step.extent)
    ]
    return _all(guards)


def _covers(extent: ir.Expr, domain: ir.Expr) -> bool:
    spare = difference(extent, domain)
    return spare is not None and spare >= 0


def _all(conditions: Sequence[ir.Expr]) -> ir.Expr | None:
    if not conditions:
        return None
    first, *rest = conditions
    for condition in rest:
        first = tirx.And(first, condition)
    return first


COPY = TileOp(
    name="tile.copy",
    operands=(Operand("src", "r"), Operand("dst", "w")),
    check=check,
    reference=reference,
    lower=lower,
)

ASYNC_COPY = dataclasses.replace(COPY, name="tile.async_copy")
"""A copy that may complete later, at the author's wait. Where nothing is asynchronous, it is a copy."""
