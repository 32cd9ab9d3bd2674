"""A hashable key for compile-time arguments.

Python's equality is too coarse here: 1, 1.0 and True are equal but trace to different programs, and so do 0.0 and -0.0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from tile_core.errors.runtime import CompileTimeArgumentError


def is_tensor(value: Any) -> bool:
    """Whether a value is an array of any library."""
    return hasattr(type(value), "__dlpack__")


def freeze(value: Any) -> Hashable:
    """A hashable stand-in that is equal for two values exactly where they trace to the same program.

    Raises:
        CompileTimeArgumentError: the value is not hashable, or is a tensor.

    >>> freeze(1) == freeze(1.0), freeze([1, 2]) == freeze([1, 2])
    (False, True)
    """
    if isinstance(value, list | tuple):
        return (type(value), tuple(map(freeze, value)))
    if isinstance(value, Mapping):
        return (type(value), tuple((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return (type(value), frozenset(map(freeze, value)))
    if isinstance(value, float):
        return (type(value), "nan" if math.isnan(value) else value.hex())
    if is_tensor(value):
        raise CompileTimeArgumentError(
            f"a {type(value).__name__} was given for a compile-time argument",
            remedy="tensors are passed to the compiled kernel: factory(...)(tensor, ...)",
        )
    try:
        hash(value)
    except TypeError:
        raise CompileTimeArgumentError(
            f"{value!r} is not hashable, so the kernel it gives could not be found again",
            remedy="use numbers, text, dtypes, tuples, lists or dicts for compile-time arguments",
        ) from None
    return (type(value), value)
