"""Names that stand in place of a dialect's own in `tilelang.….language`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.compat.tilelang.options import pass_options
from tile_core.language import annotate_compile_flags
from tile_core.language import annotate_pass_configs as _annotate

__all__ = ["annotate_pass_configs"]


def annotate_pass_configs(configs: Mapping[Any, Any]) -> None:
    """Pass configs of TileLang for one function; those that mean nothing here get a warning.

    Raises:
        PassConfigKeyError: TileLang has no such key.
    """
    own, flags = pass_options(configs)
    if own:
        _annotate(own)
    if flags:
        annotate_compile_flags(flags)
