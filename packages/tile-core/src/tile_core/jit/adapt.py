"""Right arguments in a form that can be passed."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from tile_core.dtypes import as_dtype
from tile_core.errors.runtime import ArgumentTypeError
from tile_core.jit.signature import Signature, TensorParam

_INT64 = 1 << 63
_NATIVE_NUMPY = frozenset("biuf")


def adapt(signature: Signature, arguments: Mapping[int, Any]) -> tuple[Any, ...]:
    """Right arguments in a form that DLPack can carry: each itself where it is so already.

    Scalars that are no registered numbers become Python numbers; read-only inputs are copied; arrays of a dtype that
    numpy cannot export (bfloat16, float8) are passed through a torch view of the same memory. What the entry would
    have accepted is never changed: a changed argument proves that nothing has run.
    """
    return tuple(_adapt(signature.params[position], value) for position, value in arguments.items())


def _adapt(param: Any, value: Any) -> Any:
    if isinstance(param, TensorParam):
        return exportable(value if value.flags.writeable else value.copy()) if isinstance(value, np.ndarray) else value
    if isinstance(value, int):
        # One that does not fit 64 bits is right for a float parameter only.
        return value if -_INT64 <= value < _INT64 else float(value)
    carried = isinstance(value, np.integer | np.floating) or not isinstance(value, np.generic)
    return value if carried else as_number(value)


def as_number(value: Any) -> int | float | None:
    """The Python number behind a scalar of Python or numpy, `None` for anything else; a bool is an int."""
    if isinstance(value, numbers.Integral | np.bool_):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    # ml_dtypes' scalars are numpy scalars, but no registered numbers.
    item = value.item() if isinstance(value, np.generic) else None
    return item if isinstance(item, int | float) else None


def exportable(array: Any) -> Any:
    """A numpy array, or a torch view of its memory where numpy cannot export the dtype through DLPack."""
    if array.dtype.kind in _NATIVE_NUMPY and array.dtype.isbuiltin == 1:
        return array
    try:
        import torch
    except ImportError:
        raise ArgumentTypeError(
            f"numpy cannot hand an array of dtype {array.dtype.name} to another library",
            remedy="install torch, through which it is passed",
        ) from None
    raw = torch.from_numpy(array.view(f"u{array.dtype.itemsize}"))
    return raw.view(as_dtype(array.dtype.name).carrier.torch)
