"""Conversion and accumulation in numpy, for the reference meanings. The rules are those of `dtypes/casts.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tile_core.dtypes import DType


def convert(values: Any, source: DType, target: DType) -> np.ndarray:
    """`values` of dtype `source` as `target`."""
    import numpy as np

    from tile_core.dtypes.casts import cast

    values = np.asarray(values)
    return values if source is target else cast(values, source, target)


def constant_array(value: Any, target: DType) -> np.ndarray:
    """A Python number as a numpy scalar array of `target`."""
    import numpy as np

    from tile_core.dtypes import DType

    if isinstance(value, float):
        return convert(np.float64(value), DType("float64"), target)
    return convert(np.int64(value) if value < 1 << 63 else np.uint64(value), DType("int64"), target)
