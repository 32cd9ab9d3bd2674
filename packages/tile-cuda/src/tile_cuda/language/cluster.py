"""Blocks of a cluster, and launches that overlap with the one before.

with T.ClusterKernel(8, threads=128, cluster_dims=2) as bx:
rank = T.block_rank_in_cluster()
...
T.cluster_sync()
"""

from __future__ import annotations

from typing import Any

from tile_core.frontend.values import Expr, unwrap
from tile_core.language._operands import emit
from tile_core.language.kernel import open_kernel

__all__ = [
    "block_rank_in_cluster",
    "cluster_arrive",
    "cluster_arrive_relaxed",
    "cluster_sync",
    "cluster_wait",
    "pdl_sync",
    "pdl_trigger",
]


def block_rank_in_cluster() -> Expr:
    """The number of this block in its cluster, x fastest, as int32; 0 without clusters.

    Raises:
        LaunchQueryError: outside of a kernel.
    """
    kernel = open_kernel()
    rank: Any = Expr(unwrap(0))
    stride = 1
    for axis, size in enumerate(kernel.cluster_dims):
        if size > 1:
            rank = rank + kernel.get_block_binding(axis) % size * stride
        stride *= size
    return rank


def cluster_arrive() -> None:
    """Say that this thread is here, and that what it has written may be seen by the cluster; `T.cluster_wait` waits."""
    emit("tile.cluster_arrive", {}, relaxed=0)


def cluster_arrive_relaxed() -> None:
    """Say that this thread is here, without anything about what it has written."""
    emit("tile.cluster_arrive", {}, relaxed=1)


def cluster_wait() -> None:
    """Wait until every thread of every block of the cluster has arrived, and see what they had written before."""
    emit("tile.cluster_wait", {})


def cluster_sync() -> None:
    """Wait until every thread of every block of the cluster is here, and see what they have written."""
    emit("tile.cluster_sync", {})


def pdl_trigger() -> None:
    """Let the next launch on the stream begin, where it is one that waits by `T.pdl_sync`.

    A wish: results never depend on it. (CUDA C++ Programming Guide, "Programmatic Dependent Launch".)
    """
    emit("tile.launch_release", {})


def pdl_sync() -> None:
    """Wait until the launch before has ended and what it wrote is seen. A kernel that waits so may begin early."""
    emit("tile.launch_wait", {})
