"""Copies that several blocks of a cluster share: one load for all of them, or a tile sent from one to another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tile_core.errors.ops import CopyShapeError, OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.ir import regions
from tile_core.language._operands import emit, pair
from tile_core.language.allocate import alloc_var
from tile_core.language.copy import copy
from tile_core.language.kernel import open_kernel
from tile_cuda.language.asynchronous import (
    _barrier,
    _number,
    alloc_cluster_barrier,
    barrier_arrive,
    barrier_wait,
    tma_copy,
)
from tile_cuda.language.cluster import cluster_sync

__all__ = ["copy_cluster"]

_UNIT_BYTES = 16


def copy_cluster(
    src: Any,
    dst: Any,
    *,
    dst_block: Any = None,
    cluster_mask: int | None = None,
    remote_barrier: Any = None,
    eviction_policy: str | None = None,
    coalesced_width: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copy a tile for other blocks of the cluster; without options it is `T.copy`.

    With `cluster_mask` the first block of the mask loads a tile of a tensor for all blocks of it, to the same place of
    each; blocks without a bit load for themselves. All blocks of the cluster come here, meet, and have the tile then.

    With `dst_block` and `remote_barrier` a shared tile goes to the place of `dst` in that block, as it lies in memory.
    The barrier of that block gets one arrival and the bytes; it waits there. The tile must not change before.

    Args:
        dst_block: the rank of a block in the cluster.
        cluster_mask: a bit for each block that gets the tile.
        remote_barrier: one of `T.alloc_cluster_barrier`.
        coalesced_width, annotations, loop_layout: of the plain copy.

    Raises:
        OpArgumentError: both ways at once, `dst_block` without a barrier, options that the way does not have.
        CopyShapeError: a tile that is not sent whole, or whose size is no multiple of 16 bytes.

    Example:
        T.copy_cluster(partial, gathered[rank, :, :], dst_block=0, remote_barrier=arrived)
    """
    plain = {"coalesced_width": coalesced_width, "annotations": annotations, "loop_layout": loop_layout}
    if eviction_policy is not None:
        raise OpArgumentError("copy_cluster: eviction_policy is not implemented", remedy="leave it out")
    if dst_block is None and cluster_mask is None and remote_barrier is None:
        copy(src, dst, **plain)
        return
    if any(value is not None for value in plain.values()):
        given = ", ".join(name for name, value in plain.items() if value is not None)
        raise OpArgumentError(f"copy_cluster: {given} of a copy that a copy engine makes", remedy="leave it out")
    if cluster_mask is not None:
        if dst_block is not None or remote_barrier is not None:
            raise OpArgumentError("copy_cluster: cluster_mask beside dst_block", remedy="load for all, or send to one")
        _load_for_all(src, dst, cluster_mask)
        return
    if dst_block is None or remote_barrier is None:
        missing = "dst_block" if dst_block is None else "remote_barrier"
        raise OpArgumentError(
            f"copy_cluster: {missing} is missing", remedy="give both: the block, and the barrier that it waits at"
        )
    _send(src, dst, dst_block, remote_barrier)


def _load_for_all(src: Any, dst: Any, cluster_mask: int) -> None:
    threads = 1
    for extent in open_kernel().thread_extents:
        threads *= extent
    with _at_kernel_level():
        full = alloc_cluster_barrier(threads)
        parity = alloc_var("int32", 0)
    cluster_sync()
    tma_copy(src, dst, barrier=full, cluster_mask=cluster_mask)
    barrier_arrive(full)
    barrier_wait(full, parity)
    parity.store(1 - parity)


@contextlib.contextmanager
def _at_kernel_level() -> Iterator[None]:
    """Statements go in front of the loops and branches that are open in the kernel."""
    frames = current_builder().frames
    outermost = next(at for at, frame in enumerate(frames) if frame.kernel)
    inner = frames[outermost + 1 :]
    del frames[outermost + 1 :]
    try:
        yield
    finally:
        frames.extend(inner)


def _send(src: Any, dst: Any, dst_block: Any, remote_barrier: Any) -> None:
    source, target = pair(src, dst, "copy_cluster")
    for region in (source, target):
        axes = list(zip(region.region, region.source.shape, strict=True))
        while axes and regions.constant(axes[0][0].extent) == 1:
            axes.pop(0)
        whole = all(regions.constant(axis.extent) == regions.constant(extent) is not None for axis, extent in axes)
        if not whole or not axes:
            raise CopyShapeError(
                f"copy_cluster: {region.source.name} is not sent whole",
                remedy="send whole last axes of constant extent",
            )
    size = int(target.source.dtype.bits) // 8
    for axis in target.region:
        size *= regions.constant(axis.extent) or 0
    if size % _UNIT_BYTES:
        raise CopyShapeError(f"copy_cluster: {size} bytes", remedy="send a multiple of 16 bytes")
    operands = {"src": source, "dst": target, "barrier": _barrier(remote_barrier, "copy_cluster")}
    emit("tile.bulk_send", {**operands, "block": _number(dst_block, "copy_cluster: dst_block")})
