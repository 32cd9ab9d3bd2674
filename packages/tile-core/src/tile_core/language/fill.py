"""Setting tiles: `T.fill` and `T.clear`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.frontend.values import VarCell, unwrap_stored
from tile_core.ir.regions import REDUCER
from tile_core.language._operands import attributes, buffer_of, emit, region, whole_buffer
from tile_core.language.reducer import start as start_reducer

__all__ = ["clear", "fill"]


def fill(buffer: Any, value: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """Set every element of a buffer, a region or an element to `value`, converted to its dtype.

    A Python number must fit the dtype; `T.cast` wraps around.

    Raises:
        ConstantRangeError: a Python number that the dtype does not hold.
        RegionBoundsError: a constant region outside of the buffer.

    Example:
        T.fill(row, -T.infinity("float32"))
        T.fill(X[0:8], 1.0)
        assert X[7] == 1.0 and X[8] == 8.0
    """
    if isinstance(buffer, VarCell):
        buffer.store(value)
        return
    target = buffer_of(buffer, "fill")
    if target.scope == REDUCER:
        start_reducer(whole_buffer(buffer, "fill"), value)
        return
    emit(
        "tile.fill",
        {"dst": region(buffer, "fill"), "value": unwrap_stored(value, target.dtype)},
        **attributes(annotations),
    )


def clear(buffer: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """Set every element of a buffer or a region to 0. Errors as `T.fill`.

    Example:
        T.clear(acc)
    """
    fill(buffer, 0, annotations)
