"""Reads the spellings of a dtype that come from other libraries, without importing those libraries.

An object of torch, numpy or TVM can only exist when its library is loaded, so its type's module tells what it is.
"""

from __future__ import annotations

from typing import Any

from tile_core.dtypes._table import ROWS

PYTHON_TYPES: dict[type, str] = {bool: "bool", int: "int32", float: "float32"}
FROM_TORCH: dict[str, str] = {
    "bool": "bool",
    "float4_e2m1fn_x2": "float4_e2m1fnx2",
    **{
        name: name
        for name, (_, kind, _, bits, *_) in ROWS.items()
        if kind in ("int", "uint", "float") and bits >= 8 and ROWS[name][6] == name
    },
}
FROM_NUMPY: dict[str, str] = {
    row[7].removeprefix("ml_dtypes."): name for name, row in reversed(ROWS.items()) if row[7] and row[8] == name
} | {"float8_e4m3fn": "float8_e4m3fn"}


def foreign_name(value: Any) -> str | None:
    """The name of the dtype that an object of another library means; `None` for an object that means none.

    Python's `bool`, `int`, `float`; `torch.dtype`; `numpy.dtype` and numpy (or ml_dtypes) scalar types; TVM types.
    """
    if isinstance(value, type) and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    module = type(value).__module__.partition(".")[0]
    if module == "torch" and type(value).__name__ == "dtype":
        return FROM_TORCH.get(str(value).removeprefix("torch."))
    if module == "tvm":
        return _tvm_name(value)
    if module == "numpy" and hasattr(value, "isnative"):
        return _numpy_name(value)
    if isinstance(value, type) and value.__module__.partition(".")[0] in ("numpy", "ml_dtypes"):
        import numpy as np

        try:
            return _numpy_name(np.dtype(value))
        except TypeError:
            return None
    return None


def _numpy_name(dtype: Any) -> str | None:
    return FROM_NUMPY.get(dtype.name) if dtype.isnative and dtype.names is None and dtype.subdtype is None else None


def _tvm_name(value: Any) -> str | None:
    dtype = getattr(value, "dtype", None)
    return str(dtype) or "void" if dtype is not None else None
