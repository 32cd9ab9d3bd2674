"""Conversions and accumulation in numpy, for the reference meanings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def convert(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` as `dtype` by the rules of `T.cast`.

    Float to integer truncates toward zero; integers wrap; floats round to nearest even; floats of at most 8 bits saturate to
    their largest finite value and keep NaN where they have one; bool is "differs from 0".
    """
    import numpy as np

    values = np.asarray(values)
    if values.dtype == dtype:
        return values
    if dtype == np.bool_:
        return values != 0
    with np.errstate(invalid="ignore", over="ignore"):
        if _is_narrow(dtype) and not _is_narrow(values.dtype):
            return _saturated(values, dtype)
        return values.astype(dtype)


def is_floating(dtype: np.dtype) -> bool:
    """Whether a numpy dtype, the ones of `ml_dtypes` included, is floating-point."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(("float", "bfloat")))


def _is_narrow(dtype: np.dtype) -> bool:
    return is_floating(dtype) and dtype.name.startswith(("float8", "float6", "float4"))


def _saturated(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    import ml_dtypes
    import numpy as np

    wide = values.astype(np.float64 if values.dtype.itemsize > 4 else np.float32)
    info = ml_dtypes.finfo(dtype)
    return np.clip(wide, wide.dtype.type(info.min), wide.dtype.type(info.max)).astype(dtype)


def accumulator(*dtypes: np.dtype) -> np.dtype:
    """The dtype in which reductions of these dtypes accumulate; the numpy side of `build.widened`."""
    import numpy as np

    floats = [dtype for dtype in dtypes if is_floating(dtype)]
    if floats:
        return np.dtype(np.float64 if any(dtype.itemsize == 8 for dtype in floats) else np.float32)
    return np.dtype(np.result_type(*dtypes)) if len(set(dtypes)) > 1 else np.dtype(dtypes[0])
