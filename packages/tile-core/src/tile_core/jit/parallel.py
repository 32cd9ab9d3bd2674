"""Several compiles at once. TVM's LLVM and vendor compilers release the interpreter lock, so threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tile_core.errors.base import TileError

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], num_workers: int | None, *, ignore_error: bool
) -> Sequence[Result | None]:
    """`function` of every item, in order, on `num_workers` threads (one a core by default).

    Raises:
        TileError: the first failure in order; with `ignore_error` it leaves `None` in its place.
        Exception: any other failure, in both cases.
    """
    with ThreadPoolExecutor(num_workers or os.cpu_count()) as pool:
        futures = [pool.submit(function, item) for item in items]
    results: list[Result | None] = []
    for future in futures:
        error = future.exception()
        if error is not None and not (ignore_error and isinstance(error, TileError)):
            raise error
        results.append(None if error is not None else future.result())
    return results
