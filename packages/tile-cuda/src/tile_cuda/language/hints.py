"""Portable operations with the wishes that programs for CUDA add to them.

Which instruction moves or adds a tile is the compiler's choice here, and every choice gives the same result. A wish is
checked, so that a misspelt one is found, and followed where the portable operation has it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core import language as portable
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.loops import LoopNest
from tile_core.language.reduce import reduce

__all__ = ["Parallel", "atomic_add", "copy", "im2col", "reduce_absmax", "reduce_max", "reduce_min"]

Annotations = Mapping[str, Any] | None
_INSTRUCTIONS = (None, "tma", "cp_async", "sync")


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Annotations = None,
) -> LoopNest:
    """Iterate over all index tuples below `extents`: the portable `T.Parallel`.

    Args:
        prefer_async: copy from global to shared memory without waiting; the compiler does where it can tell who waits.

    Raises:
        LoopArgumentError: no extent, an extent that is no integer, or an option that is none.

    Example:
        for i in T.Parallel(64, prefer_async=True):
            Y[i] = X[i] + 1.0
    """
    del prefer_async
    return portable.Parallel(
        *extents, coalesced_width=coalesced_width, loop_layout=loop_layout, annotations=annotations
    )


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    annotations: Annotations = None,
    loop_layout: Any = None,
) -> None:
    """Copy a tile between any two memories, converting each element: the portable `T.copy`.

    Args:
        disable_tma, prefer_instruction: which instruction should move it: "tma", "cp_async" or "sync". The compiler
            takes the one that the target has and that the loop around it can wait for, whatever is wished.

    Raises:
        OpArgumentError: another `prefer_instruction`; else as the portable `T.copy`.

    Example:
        T.copy(A[0, 0], A_shared, disable_tma=True)
    """
    del disable_tma
    if prefer_instruction not in _INSTRUCTIONS:
        raise OpArgumentError(
            f"copy: prefer_instruction={prefer_instruction!r}",
            remedy='give "tma", "cp_async" or "sync", or leave it out',
        )
    portable.copy(
        src,
        dst,
        coalesced_width=coalesced_width,
        annotations=annotations,
        loop_layout=loop_layout,
        eviction_policy=eviction_policy,
    )


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Annotations = None,
) -> Any:
    """`dst += value` as one indivisible step for each element: the portable `T.atomic_add`.

    Args:
        use_tma: let the copy engine add a tile; the compiler does where the tensor and the tile allow it.

    Raises:
        AtomicOperandError, MemoryOrderError: as the portable `T.atomic_add`.

    Example:
        T.atomic_add(total[0, 0], C_shared, use_tma=True)
    """
    del use_tma
    return portable.atomic_add(dst, value, memory_order, return_prev, annotations)


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: str | None = None,
    annotations: Annotations = None,
) -> None:
    """Gather the patches of an NHWC image into the matrix tile `col`: the portable `T.im2col`.

    Args:
        eviction_policy: how long caches should keep the image; a wish that nothing follows.

    Raises:
        OpArgumentError: as the portable `T.im2col`.
    """
    del eviction_policy
    portable.im2col(img, col, nhw_step, c_step, kernel, stride, dilation, pad, annotations)


def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """`out = buffer.max(dim)`: the portable `T.reduce_max`, where a NaN is ignored unless `nan_propagate`.

    Raises:
        ReduceShapeError, ReduceDTypeError, OpArgumentError: as `T.reduce`.

    Example:
        T.reduce_max(total, row, dim=1, nan_propagate=True)
    """
    reduce(buffer, out, "max", dim, clear, batch, _propagating(nan_propagate, annotations))


def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """`out = buffer.min(dim)`: the portable `T.reduce_min`, where a NaN is ignored unless `nan_propagate`.

    Raises:
        ReduceShapeError, ReduceDTypeError, OpArgumentError: as `T.reduce`.

    Example:
        T.reduce_min(total, row, dim=1, nan_propagate=True)
    """
    reduce(buffer, out, "min", dim, clear, batch, _propagating(nan_propagate, annotations))


def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Annotations = None,
) -> None:
    """`out = abs(buffer).max(dim)`: the portable `T.reduce_absmax`, where a NaN is ignored unless `nan_propagate`.

    Raises:
        ReduceShapeError, ReduceDTypeError, OpArgumentError: as `T.reduce`.

    Example:
        T.reduce_absmax(total, row, dim=1, nan_propagate=True)
    """
    reduce(buffer, out, "absmax", dim, clear, batch, _propagating(nan_propagate, annotations))


def _propagating(nan_propagate: bool, annotations: Annotations) -> Annotations:
    return {**(annotations or {}), "nan_propagate": 1} if nan_propagate else annotations
