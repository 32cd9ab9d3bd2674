"""Refuse launches and barriers that the target does not have, before anything is lowered.

PTX ISA, "barrier.cluster" (clusters of at most 8 blocks are portable), "griddepcontrol", "bar" (counts are multiples of
the warp's size).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.errors.frontend import LaunchShapeError
from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.ops.threads import called
from tile_core.passes.base import PassContext

MOST_BLOCKS = 8
MOST_GRID = {"x": 2**31 - 1, "y": 2**16 - 1, "z": 2**16 - 1}
"""Blocks along each axis of a grid: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""
_FACTS = {
    "tile.cluster_arrive": ("clusters", "clusters of blocks"),
    "tile.cluster_wait": ("clusters", "clusters of blocks"),
    "tile.cluster_sync": ("clusters", "clusters of blocks"),
    "tile.launch_wait": ("dependent_launch", "launches that overlap"),
    "tile.launch_release": ("dependent_launch", "launches that overlap"),
}
_COUNTED = ("tile.sync_threads", "tile.named_barrier_arrive")


@dataclass(frozen=True)
class CheckLaunch:
    """See the module.

    Raises:
        UnsupportedOnTargetError: clusters or overlapping launches on a target without them.
        LaunchShapeError: a grid or a cluster that is too large, or a cluster that does not divide the grid.
        OpArgumentError: a barrier that counts parts of warps, or more threads than the block has.
    """

    name: ClassVar[str] = "check_launch"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """Check `func`; it is returned as it is."""
        for loop in launch_ir.launches(func.body):
            launch = launch_ir.from_stmt(loop)
            _check_grid(launch)
            _check_cluster(launch, context)
            for stmt in visit.collect(launch.body, S.Evaluate):
                _check_fact(stmt, context)
                _check_count(stmt, launch, context)
        return func


def _check_grid(launch: launch_ir.Launch) -> None:
    for axis, extent in zip(launch_ir.AXES, launch.grid_extents, strict=False):
        blocks = constant(extent)
        if blocks is not None and blocks > MOST_GRID[axis]:
            raise LaunchShapeError(
                f"the grid has {blocks} blocks along {axis}, and CUDA at most {MOST_GRID[axis]}",
                remedy="give the longest axis first, or let a block do the work of several",
                span=from_tvm(launch.span),
            )


def _check_cluster(launch: launch_ir.Launch, context: PassContext) -> None:
    if prod(launch.cluster_dims) == 1:
        return
    shown, span = ", ".join(map(str, launch.cluster_dims)), from_tvm(launch.span)
    if not context.capabilities.fact("clusters"):
        raise _missing(context, "clusters of blocks", span)
    if prod(launch.cluster_dims) > MOST_BLOCKS:
        raise LaunchShapeError(
            f"a cluster of ({shown}) has {prod(launch.cluster_dims)} blocks",
            remedy=f"a cluster has at most {MOST_BLOCKS}",
            span=span,
        )
    extents = [constant(extent) for extent in launch.grid_extents]
    extents += [1] * (3 - len(extents))
    for axis, extent, size in zip(launch_ir.AXES, extents, launch.cluster_dims, strict=True):
        if extent is not None and extent % size:
            raise LaunchShapeError(
                f"the grid has {extent} blocks along {axis}, which clusters of ({shown}) do not divide",
                remedy="round the extent up to a multiple, and skip the blocks beyond",
                span=span,
            )


def _check_fact(stmt: S.Evaluate, context: PassContext) -> None:
    needed = _FACTS.get(called(stmt))
    if needed is not None and not context.capabilities.fact(needed[0]):
        raise _missing(context, needed[1], from_tvm(stmt.span))


def _check_count(stmt: S.Evaluate, launch: launch_ir.Launch, context: PassContext) -> None:
    if called(stmt) not in _COUNTED or "arrive_count" not in stmt.value.attrs:
        return
    count, warp, threads = int(stmt.value.attrs["arrive_count"]), context.capabilities.warp_size, prod(launch.threads)
    if count % warp or count > threads:
        raise OpArgumentError(
            f"a barrier of {count} threads, in a block of {threads}",
            remedy=f"count whole warps: a multiple of {warp}, at most the block",
            span=from_tvm(stmt.span),
        )


def _missing(context: PassContext, what: str, span: Any) -> UnsupportedOnTargetError:
    return UnsupportedOnTargetError(f"{context.target} has no {what}", remedy="compile for sm_90 or later", span=span)
