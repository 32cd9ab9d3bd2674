"""`tilelang.dtypes`: the names of dtypes."""

from __future__ import annotations

from typing import Any

from tile_core import dtypes as _dtypes
from tile_core.dtypes import EXPORTED_NAMES

__all__ = ["dtype", *sorted(EXPORTED_NAMES)]  # noqa: PLE0604 - the table holds text

dtype = _dtypes.DType


def __getattr__(name: str) -> Any:
    if name in EXPORTED_NAMES:
        from tile_core import language

        return getattr(language, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
