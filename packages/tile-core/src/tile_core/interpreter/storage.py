"""The memory of one buffer: its elements, which of them were written, and whose copy it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile_core.dtypes import DType
from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import InterpreterLimitError
from tile_core.interpreter.space import UNIFORM, Array, Space

POISON, OTHER_POISON = 0xA5, 0x3C
MAX_BYTES = 1 << 30


@dataclass(eq=False)
class Storage:
    """`data` has the buffer's shape, behind the axes of `space` where every iteration has a copy of its own.

    The lanes of a vector dtype are one more axis behind, which `written` does not have.
    `written` is `None` where everything counts as written (arguments). `safe` is what reads beyond a global tensor
    give. A private copy has a `lender`, the memory that it was copied from, and notes in `borrowed` what was read
    before it was written.
    """

    name: str
    dtype: DType
    scope: str
    data: Array
    written: Array | None
    space: Space = UNIFORM
    safe: Any = None
    undefined: str = ""
    borrowed: Array | None = None
    lender: Storage | None = None
    origin: Storage | None = None
    """Of a view with elements of the same width and order: the memory that it is a view of."""
    places: tuple[int, ...] = field(init=False)
    """The shape of what has an index: the axes of `space` and of the buffer."""
    shape: tuple[int, ...] = field(init=False)
    """The buffer's own shape."""
    guarded: bool = field(init=False)
    """Whether accesses beyond it are guarded by the language rather than wrong."""

    def __post_init__(self) -> None:
        # Asked at every access, so not computed there.
        self.places = self.data.shape[:-1] if self.dtype.is_vector else self.data.shape
        self.shape = self.places[len(self.space.shape) :]
        self.guarded = self.scope == "global"

    @property
    def memory(self) -> Storage:
        """What two views of the same elements have in common."""
        return self if self.origin is None else self.origin.memory

    def settle(self) -> None:
        """Stop tracking once every element is written; called after writes that may have been the last."""
        if self.written is not None and self.written.all():
            self.written = None


def allocate(
    name: str,
    dtype: DType,
    scope: str,
    shape: tuple[int, ...],
    space: Space = UNIFORM,
    span: SourceSpan | None = None,
    poison: int = POISON,
) -> Storage:
    """Fresh memory, unwritten and filled with a byte pattern that nobody mistakes for a result.

    Raises:
        InterpreterLimitError: more than a gigabyte.
    """
    full = (*space.shape, *shape)
    size = math.prod(full) * dtype.bytes
    if size > MAX_BYTES:
        raise InterpreterLimitError(
            f"{name} of shape {shape} takes {size} bytes, the interpreter's limit is {MAX_BYTES}",
            remedy="use smaller tiles",
            span=span,
        )
    data = np.empty((*full, dtype.lanes) if dtype.is_vector else full, dtype.element.numpy)
    data.view(np.uint8).fill(poison) if data.size and data.ndim and dtype.bits >= 8 and not dtype.is_bool else None
    return Storage(name, dtype, scope, data, np.zeros(full, np.bool_), space, safe_value(dtype, 0))


def safe_value(dtype: DType, value: float) -> Any:
    """`value` as a numpy scalar of the dtype's element."""
    return np.asarray(value).astype(dtype.element.numpy)[()]
