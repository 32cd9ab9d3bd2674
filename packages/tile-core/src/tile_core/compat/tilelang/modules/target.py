"""`tilelang.backend.target`: the choice of a target."""

from __future__ import annotations

from typing import Any

from tile_core.compat.tilelang.options import target_of
from tile_core.targets.select import select_target

__all__ = ["determine_target"]


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target that kernels are compiled for: text, or with `return_object` a `tile_core.Target`."""
    chosen = select_target(target_of(target))
    return chosen if return_object else chosen.kind
