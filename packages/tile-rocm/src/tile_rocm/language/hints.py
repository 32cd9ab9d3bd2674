"""Portable operations with the wishes that programs for ROCm add to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.language import GemmWarpPolicy
from tile_core.language import gemm as _gemm

__all__ = ["gemm"]


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    k_pack: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """C += A @ B on tiles; C = A @ B where `clear_accum`: the portable `T.gemm`.

    Args:
        k_pack: how many runs of K one load of a lane should serve; the compiler's choice, whatever is wished.

    Raises:
        OpArgumentError: `k_pack` is no int of at least 1. GemmShapeError, GemmSymbolicError, GemmDTypeError: as the
        portable `T.gemm`.

    Example:
        T.gemm(A_shared, B_shared, total, k_pack=2)
    """
    if type(k_pack) is not int or k_pack < 1:
        raise OpArgumentError(f"gemm: k_pack={k_pack!r}", remedy="give an int of at least 1, or leave it out")
    _gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations)
