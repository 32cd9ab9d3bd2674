"""`tilelang.language.fp8`: the 8-bit floats that the target computes with."""

from __future__ import annotations

from typing import Any

from tile_core.compat.tilelang.options import target_of
from tile_core.dtypes import DType, as_dtype
from tile_core.errors.compat import CompatOptionError
from tile_core.plugins.manager import backend, resolve
from tile_core.targets.select import select_target

__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]

_TYPES = {"e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"), "e5m2": ("float8_e5m2", "float8_e5m2fnuz")}
"""The dtype of a format, and the one on targets whose hardware has no negative zero."""


def determine_fp8_type(fp8_format: str = "e4m3") -> DType:
    """The dtype of a format, "e4m3" or "e5m2", on the target that kernels which name none are compiled for.

    Raises:
        CompatOptionError: another format.
    """
    if fp8_format not in _TYPES:
        raise CompatOptionError(f"there is no 8-bit float {fp8_format!r}", remedy='write "e4m3" or "e5m2"')
    target = select_target(target_of())
    facts = resolve(backend(target.backend).capabilities)(target).facts
    return as_dtype(_TYPES[fp8_format][facts.get("fp8_variant") == "fnuz"])


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """The same as torch names it."""
    return determine_fp8_type(fp8_format).torch
