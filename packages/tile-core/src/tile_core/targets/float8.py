"""The two encodings of 8-bit floats, of which a target's hardware computes with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.dtypes import UnknownDTypeError
from tile_core.plugins.manager import backend, resolve
from tile_core.targets.select import select_target

FP8_VARIANT_FACT = "fp8_variant"
"""The fact of a target that names the encoding of its float8 hardware: "fn" (OCP, the default) or "fnuz"."""

FP8_TYPES = {
    "e4m3": {"fn": "float8_e4m3fn", "fnuz": "float8_e4m3fnuz"},
    "e5m2": {"fn": "float8_e5m2", "fnuz": "float8_e5m2fnuz"},
}


def determine_fp8_type(
    fp8_format: Literal["e4m3", "e5m2"] = "e4m3", *, facts: Mapping[str, Any] | None = None
) -> DType:
    """The float8 type that the hardware computes with, from the target's facts.

    Args:
        fp8_format: which of the two formats.
        facts: a target's `Capabilities.facts`; `None` asks the target that `auto` selects.

    Raises:
        UnknownDTypeError: another format.
        NoTargetError: no facts were given, and no target can run here.

    >>> determine_fp8_type("e4m3", facts={"fp8_variant": "fnuz"})
    DType('float8_e4m3fnuz')
    """
    if fp8_format not in FP8_TYPES:
        raise UnknownDTypeError(f"{fp8_format!r} is no float8 format", remedy="use 'e4m3' or 'e5m2'")
    found = _facts_of_this_machine() if facts is None else facts
    return as_dtype(FP8_TYPES[fp8_format][found.get(FP8_VARIANT_FACT, "fn")])


def _facts_of_this_machine() -> Mapping[str, Any]:
    target = select_target(None)
    facts: Mapping[str, Any] = resolve(backend(target.backend).capabilities)(target).facts
    return facts
