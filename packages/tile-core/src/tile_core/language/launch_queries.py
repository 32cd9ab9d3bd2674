"""What the open launch consists of: its blocks, threads and cluster, axis by axis."""

from __future__ import annotations

from typing import Any

from tile_core.frontend.values import Var
from tile_core.language.kernel import open_kernel

__all__ = [
    "get_block_binding",
    "get_block_bindings",
    "get_block_extent",
    "get_block_extents",
    "get_cluster_dims",
    "get_cluster_extent",
    "get_cluster_extents",
    "get_cluster_id",
    "get_cluster_ids",
    "get_cluster_size",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
]


def get_block_binding(dim: int = 0) -> Any:
    """The block index of axis `dim` (0 is x), 0 where it is not launched. Raises LaunchQueryError outside a kernel.

    Example:
        assert T.get_block_binding(0) == bx
    """
    return open_kernel().get_block_binding(dim)


def get_block_bindings() -> list[Var]:
    """The block indices of the launched axes. Raises LaunchQueryError outside a kernel.

    Example:
        assert T.get_block_bindings()[0] == bx
    """
    return open_kernel().get_block_bindings()


def get_block_extent(dim: int = 0) -> Any:
    """The blocks along axis `dim`, 1 for an axis that is not launched. Raises LaunchQueryError outside a kernel.

    Example:
        assert T.get_block_extent(0) == 2 and T.get_block_extent(1) == 1
    """
    return open_kernel().get_block_extent(dim)


def get_block_extents() -> list[Any]:
    """The grid extents of the launched axes. Raises LaunchQueryError outside a kernel.

    Example:
        assert T.get_block_extents() == [2]
    """
    return open_kernel().get_block_extents()


def get_thread_binding(dim: int = 0) -> Var:
    """The thread index of axis `dim`. Raises LaunchQueryError outside a kernel.

    Example:
        tx = T.get_thread_binding()
        X[tx] = tx
    """
    return open_kernel().get_thread_binding(dim)


def get_thread_bindings() -> list[Var]:
    """The thread indices of the three axes. Raises LaunchQueryError outside a kernel.

    Example:
        tx, ty, tz = T.get_thread_bindings()
        X[tx] = tx
    """
    return open_kernel().get_thread_bindings()


def get_thread_extent(dim: int = 0) -> int:
    """The threads along axis `dim`. Raises LaunchQueryError outside a kernel and where `threads` was not given.

    Example:
        assert T.get_thread_extent() == 32
    """
    return open_kernel().get_thread_extent(dim)


def get_thread_extents() -> list[int]:
    """The threads along the three axes. Raises LaunchQueryError outside a kernel and where `threads` was not given.

    Example:
        assert T.get_thread_extents() == [32, 1, 1]
    """
    return open_kernel().get_thread_extents()


def get_cluster_dims() -> list[int]:
    """The blocks of a cluster along the three axes; ones where there are no clusters.

    Example:
        assert T.get_cluster_dims() == [1, 1, 1]
    """
    return open_kernel().get_cluster_dims()


def get_cluster_extent(dim: int = 0) -> Any:
    """The clusters along axis `dim`.

    Example:
        assert T.get_cluster_extent(0) == 2
    """
    return open_kernel().get_cluster_extent(dim)


def get_cluster_extents() -> list[Any]:
    """The clusters along the launched axes.

    Example:
        assert T.get_cluster_extents() == [2]
    """
    return open_kernel().get_cluster_extents()


def get_cluster_id(dim: int = 0) -> Any:
    """The cluster index along axis `dim`.

    Example:
        assert T.get_cluster_id(0) == bx
    """
    return open_kernel().get_cluster_id(dim)


def get_cluster_ids() -> list[Any]:
    """The cluster indices along the launched axes.

    Example:
        assert T.get_cluster_ids()[0] == bx
    """
    return open_kernel().get_cluster_ids()


def get_cluster_size() -> int:
    """The blocks of a cluster.

    Example:
        assert T.get_cluster_size() == 1
    """
    return open_kernel().get_cluster_size()
