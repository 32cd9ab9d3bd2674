"""Inclusive scans along one axis of a tile of any rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.language._operands import attributes, emit, region

__all__ = ["cummax", "cumsum"]


def cumsum(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Mapping[str, Any] | None = None
) -> None:
    """Inclusive prefix sum of `src` along `dim` into `dst` (in place without it); from the end with `reverse`.

    Floats of at most 32 bits accumulate in float32.

    Raises:
        ScanShapeError: shapes differ, `dim` is out of range, or the regions overlap without being the same.

    Example:
        line = T.alloc_shared((64,), "float32")
        T.copy(X, line)
        T.cumsum(line)
        assert line[63] == 2016.0
    """
    _scan("sum", "cumsum", src, dst, dim, reverse, annotations)


def cummax(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Mapping[str, Any] | None = None
) -> None:
    """Inclusive prefix maximum, which propagates NaN. Arguments and errors as `T.cumsum`.

    Example:
        line = T.alloc_shared((64,), "float32")
        T.copy(X, line)
        T.cummax(line, reverse=True)
        assert line[0] == 63.0
    """
    _scan("max", "cummax", src, dst, dim, reverse, annotations)


def _scan(
    kind: str, what: str, src: Any, dst: Any, dim: int, reverse: bool, annotations: Mapping[str, Any] | None
) -> None:
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise OpArgumentError(f"{what}: dim={dim!r}", remedy="give an int known while tracing")
    emit(
        "tile.scan",
        {"src": region(src, f"{what}: src"), "dst": region(src if dst is None else dst, f"{what}: dst")},
        **attributes(annotations, kind=kind, dim=dim, reverse=int(bool(reverse))),
    )
