"""The free mapping of a parallel loop: who runs which iteration when nothing else decides.

    flat = row-major iteration index;  group = flat // v
    thread = group % P;                local = (group // P) * v + flat % v

with `v` the vector width and `P` the number of threads. Consecutive threads take consecutive vectors, so accesses
coalesce; any extent and any number of threads work, powers of two are never assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tile_core.layouts.fragment import Fragment


def parallel_fragment(extents: Sequence[int], threads: int, vector: int = 1) -> Fragment:
    """The mapping of iterations of shape `extents` to `threads` threads in vectors of `vector`.

    >>> parallel_fragment((8, 8), threads=8, vector=2).owned_by(0)[:4]
    [(0, 0), (0, 1), (2, 0), (2, 1)]
    """
    strides = [prod(extents[axis + 1 :]) for axis in range(len(extents))]

    def flat(index: Sequence[Any]) -> Any:
        return sum(i * stride for i, stride in zip(index, strides, strict=True))

    return Fragment.of(
        extents,
        lambda index, replica: flat(index) // vector % threads,
        lambda index: flat(index) // vector // threads * vector + flat(index) % vector,
    )
