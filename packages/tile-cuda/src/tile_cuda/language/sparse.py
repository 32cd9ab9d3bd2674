"""Products with a sparse A: two elements in four are stored, and bits that say where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.frontend import arith
from tile_core.frontend.values import unwrap
from tile_core.language._operands import attributes, emit, region
from tile_core.language.gemm import GemmWarpPolicy

__all__ = ["gemm_sp"]


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
    wg_wait: int = 0,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """C += A @ B on tiles, where of every four neighbours of a row of A two are stored.

    Args:
        A_sparse: [M, K / 2], or transposed: the stored elements, in order. 8 or 16 bits each.
        E: [M, K / 4 / chunks], chunks = bits of an element / 4: for each four of K four bits, from the low ones on; the
            place of the first stored element in the lower two bits, then the place of the second, which is greater.
        B: [K, N], or [N, K] with `transpose_B`.
        C: [M, N], the accumulator.
        policy: see `GemmWarpPolicy`.
        clear_accum: a bool or a device condition.
        wg_wait: accepted; the product is waited for where it stands.

    Raises:
        GemmShapeError, GemmSymbolicError, GemmDTypeError: operands that do not go together.

    Example:
        T.gemm_sp(A_shared, E_shared, B_shared, total)
    """
    del wg_wait
    emit(
        "tile.gemm_sp",
        {
            "a": region(A_sparse, "gemm_sp: A_sparse"),
            "e": region(E, "gemm_sp: E"),
            "b": region(B, "gemm_sp: B"),
            "c": region(C, "gemm_sp: C"),
            "clear_accum": arith.truth(unwrap(clear_accum)),
        },
        **attributes(
            annotations,
            transpose_a=int(bool(transpose_A)),
            transpose_e=int(bool(transpose_E)),
            transpose_b=int(bool(transpose_B)),
            policy=int(GemmWarpPolicy(policy)),
        ),
    )
