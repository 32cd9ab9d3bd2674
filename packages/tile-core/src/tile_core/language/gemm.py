"""Matrix multiply on tiles."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import NotPortableError
from tile_core.frontend import arith
from tile_core.frontend.values import unwrap
from tile_core.language._operands import attributes, emit, region
from tile_core.language.refused import refused

__all__ = ["GemmWarpPolicy", "gemm", "gemm_blockscaled", "gemm_sp"]


class GemmWarpPolicy(enum.IntEnum):
    """How warps split C: balanced, all along M, or all along N. Without warps it means nothing.

    Example:
        T.gemm(tile, tile, acc, policy=T.GemmWarpPolicy.FullRow)
    """

    Square = 0
    FullRow = 1
    FullCol = 2


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """C += A @ B on tiles; C = A @ B where `clear_accum`.

    Args:
        A: [M, K], or [K, M] with `transpose_A`.
        B: [K, N], or [N, K] with `transpose_B`.
        C: [M, N], the accumulator. Its dtype is explicit: a float for floats, at least int32 for integers.
        policy: see `GemmWarpPolicy`.
        clear_accum: a bool or a device condition such as `k == 0`.

    Floats of at most 32 bits accumulate in float32, integers exactly in C's dtype.

    Raises: GemmShapeError: M, N or K disagree. GemmSymbolicError: one is no constant. GemmDTypeError: dtypes do not
    go together.

    Example:
        T.copy(A[0, 0], tile)
        T.gemm(tile, tile, acc, transpose_B=True)  # acc += tile @ tile.T
    """
    emit_gemm("gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations)


def emit_gemm(
    what: str,
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool,
    transpose_B: bool,
    policy: GemmWarpPolicy,
    clear_accum: Any,
    annotations: Mapping[str, Any] | None,
    **marks: int,
) -> None:
    """Append a `tile.gemm` for the function `what`, with further attributes `marks`; for dialects."""
    emit(
        "tile.gemm",
        {
            "a": region(A, f"{what}: A"),
            "b": region(B, f"{what}: B"),
            "c": region(C, f"{what}: C"),
            "clear_accum": arith.truth(unwrap(clear_accum)),
        },
        **attributes(
            annotations,
            transpose_a=int(bool(transpose_A)),
            transpose_b=int(bool(transpose_B)),
            policy=int(GemmWarpPolicy(policy)),
            **marks,
        ),
    )


@refused
def gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    k_start: Any,
    sf_a_granularity_k: int,
    sf_b_granularity_k: int,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Block-scaled (MX) matrix multiply: an instruction of few targets, so the portable dialect refuses it.

    Raises:
        NotPortableError: always.
    """
    raise NotPortableError(
        "gemm_blockscaled: the layout of its scales belongs to one vendor's matrix unit",
        remedy="scale a tile of float32 products after T.gemm, or use a vendor's dialect",
    )


@refused
def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """2:4 sparse matrix multiply: an instruction of few targets, so the portable dialect refuses it.

    Raises:
        NotPortableError: always.
    """
    raise NotPortableError(
        "gemm_sp: the layout of its metadata belongs to one vendor's matrix unit",
        remedy="expand A to a dense tile and use T.gemm, or use a vendor's dialect",
    )
