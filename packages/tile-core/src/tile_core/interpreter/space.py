"""The iteration space over which statements are vectorised.

Outside of `T.Parallel` and without thread indices the space has no axes, and values are numpy scalars. Inside, every
value is a scalar or an array that broadcasts to the space's shape, and a mask says which iterations take part. A value
of a vector dtype has its lanes on one more axis behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Space:
    """Axes that run together; `names` are those of the loop variables, for messages."""

    def __init__(self, shape: Sequence[int], names: Sequence[str], *, threads: bool = False) -> None:
        self.shape = tuple(shape)
        self.names = tuple(names)
        self.threads = threads
        self.size = math.prod(self.shape)

    @cached_property
    def grid(self) -> tuple[Array, ...]:
        """The index on each axis, in open form: broadcasting them gives the space's shape."""
        rank = len(self.shape)
        return tuple(
            np.arange(extent).reshape([-1 if at == axis else 1 for at in range(rank)])
            for axis, extent in enumerate(self.shape)
        )

    @cached_property
    def ids(self) -> Array:
        """The row-major number of each iteration."""
        return np.arange(self.size).reshape(self.shape)

    def spread(self, values: Any, lanes: int = 1) -> Array:
        """`values` broadcast to the space's shape, behind which vector values have one more axis."""
        return np.broadcast_to(values, self.shape if lanes == 1 else (*self.shape, lanes))


UNIFORM = Space((), ())
"""One iteration: code that is the same for the whole block."""


def same(left: Any, right: Any) -> Array:
    """Where values are equal, NaN equal to NaN."""
    return np.asarray((left == right) | ((left != left) & (right != right)))
