"""Options that a kernel states about its own compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.ir.marks import COMPILE_FLAGS, PASS_CONFIGS

__all__ = ["annotate_compile_flags", "annotate_pass_configs"]


def annotate_pass_configs(configs: Mapping[str, Any]) -> None:
    """Options of passes for this function; those given to `tl.jit` or `tl.compile` override them.

    Raises:
        OpArgumentError: no mapping from names to bools, ints, floats or strings.

    Example:
        T.annotate_pass_configs({"tile.emulate_check": True})
    """
    if not isinstance(configs, Mapping):
        raise OpArgumentError(f"annotate_pass_configs: {configs!r} is no mapping", remedy='write {"name": value}')
    for key, value in configs.items():
        if not isinstance(value, bool | int | float | str):
            raise OpArgumentError(f"annotate_pass_configs: {key}={value!r}", remedy="give a bool, a number or a string")
    _merge(PASS_CONFIGS, {str(key): int(value) if isinstance(value, bool) else value for key, value in configs.items()})


def annotate_compile_flags(flags: str | Sequence[str]) -> None:
    """Flags for the device compiler of this function: a list, or one string that is split like a shell does.

    Raises:
        OpArgumentError: neither.

    Example:
        T.annotate_compile_flags("-O2")
    """
    import shlex

    builder = current_builder()
    if not isinstance(flags, str | list | tuple):
        raise OpArgumentError(f"annotate_compile_flags: {flags!r}", remedy="give a list of strings, or one string")
    given = shlex.split(flags) if isinstance(flags, str) else [str(flag) for flag in flags]
    builder.attributes[COMPILE_FLAGS] = [*builder.attributes.get(COMPILE_FLAGS, []), *given]


def _merge(key: str, values: Mapping[str, Any]) -> None:
    builder = current_builder()
    builder.attributes[key] = {**builder.attributes.get(key, {}), **values}
