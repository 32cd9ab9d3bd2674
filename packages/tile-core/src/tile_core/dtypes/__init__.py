"""The data types of the tile language.

`DType` is the type of a dtype, `as_dtype` reads any spelling, and every exported name is an attribute:

>>> from tile_core import dtypes
>>> dtypes.half
DType('float16')

Importing this package imports neither numpy nor torch nor TVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tile_core.dtypes._table import ALIASES, ROWS
from tile_core.dtypes.dtype import AnyDType, DType, FloatFormat, as_dtype, set_cast_hook
from tile_core.dtypes.rules import (
    get_tvm_dtype,
    is_f8f6f4_family,
    is_float4,
    is_float4_e2m1_unpacked,
    is_float4_e2m1fn,
    validate_gemm_ab_dtypes,
)

__all__ = [
    "EXPORTED_NAMES",
    "AnyDType",
    "DType",
    "FloatFormat",
    "as_dtype",
    "exported",
    "get_tvm_dtype",
    "is_f8f6f4_family",
    "is_float4",
    "is_float4_e2m1_unpacked",
    "is_float4_e2m1fn",
    "set_cast_hook",
    "validate_gemm_ab_dtypes",
]


def exported(aliases: Iterable[str], rows: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    """The names of the language that a table of dtypes gives, aliases first.

    >>> exported(["half"], ROWS)[:3]
    ('half', 'bool', 'int4')
    """
    names = list(aliases)
    for name, row in rows.items():
        if row[9]:
            names += [name, *(f"{name}x{lanes}" for lanes in row[5])]
    return tuple(names)


EXPORTED_NAMES = exported(ALIASES, ROWS)
"""The names of the language's dtypes, `T.<name>`, aliases first."""


def __getattr__(name: str) -> DType:
    if name in EXPORTED_NAMES:
        return DType(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
