"""Annotations that only CUDA has: how many blocks a multiprocessor should hold, and what stays in its L2 cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import AnnotationError
from tile_core.ir.regions import GLOBAL, constant
from tile_core.language._operands import is_positive_int, whole_buffer
from tile_core.language.kernel import open_kernel
from tile_cuda.attributes import L2_RATIO, L2_STEPS

__all__ = ["annotate_l2_hit_ratio", "annotate_min_blocks_per_sm"]


def annotate_min_blocks_per_sm(n: int) -> None:
    """Have the compiler use so few registers that a multiprocessor can hold `n` blocks at once.

    It is the second number of `__launch_bounds__`.

    Raises:
        AnnotationError: no positive int.
        LaunchQueryError: outside of a kernel.
    """
    if not is_positive_int(n):
        raise AnnotationError(f"annotate_min_blocks_per_sm: {n!r}", remedy="give an int of at least 1")
    open_kernel().options["min_blocks_per_sm"] = n


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """Ask the device to keep a tensor in its L2 cache while the kernel runs.

    A wish: results never depend on it. A launch has one such window (CUDA C++ Programming Guide, "L2 Access
    Management").

    Args:
        l2_hit_ratio_map: one tensor of constant shape to the part of its accesses that should stay, above 0 to 1.

    Raises:
        AnnotationError: more than one tensor, another scope, a shape that is not constant, or no such ratio.
        LaunchQueryError: outside of a kernel.

    Example:
        T.annotate_l2_hit_ratio({weights: 0.8})
    """
    kernel = open_kernel()
    if len(l2_hit_ratio_map) != 1 or any(name.startswith(L2_RATIO) for name in kernel.options):
        raise AnnotationError("annotate_l2_hit_ratio: a launch keeps one tensor", remedy="annotate the one reused most")
    ((key, ratio),) = l2_hit_ratio_map.items()
    buffer = whole_buffer(key, "annotate_l2_hit_ratio")
    if buffer.scope != GLOBAL:
        raise AnnotationError(
            f"annotate_l2_hit_ratio: {buffer.name} is {buffer.scope} memory", remedy="annotate a tensor parameter"
        )
    extents = [constant(extent) for extent in buffer.ir.shape]
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise AnnotationError(
            f"annotate_l2_hit_ratio: {ratio!r} for {buffer.name}", remedy="give a number above 0 to 1"
        )
    if None in extents:
        raise AnnotationError(
            f"annotate_l2_hit_ratio: the shape of {buffer.name} is not constant", remedy="annotate a tensor whose is"
        )
    kernel.options[f"{L2_RATIO}{buffer.name}"] = max(1, round(ratio * L2_STEPS))
