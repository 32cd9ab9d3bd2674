"""An author's fragment as digits: the form of a layout that code is generated from.

A fragment is any function from an index to a thread and a register. Code is generated for those that deal each axis by
itself, digit by digit, such as `(i // 4, i % 4)`, warps over blocks of rows, lanes over columns. Whether a fragment is
one is read from its tables, so it does not matter how its author wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.layouts.tabulate import tabulate


def author_digits(maps: Mapping[str, Any], shape: Sequence[int]) -> tuple[AxisDigits, ...] | None:
    """The digits of every axis of a fragment, given as `fragment_maps` states it; `None` for one that has none.

    Replicas are what the digits leave open: threads that differ in no digit hold the same elements.
    """
    thread, local = maps["thread_map"], maps["local_map"]
    variables = list(thread.initial_indices)
    threads = tabulate(variables, list(thread.final_indices), (*shape, int(maps["replicate"])))[0][..., 0]
    registers = tabulate(list(local.initial_indices), list(local.final_indices), tuple(shape))[0]
    axes = [
        _axis(_along(threads, axis), _along(registers, axis), is_last=axis == len(shape) - 1)
        for axis in range(len(shape))
    ]
    if any(axis is None for axis in axes):
        return None
    found = tuple(axis for axis in axes if axis is not None)
    whole = _sum_of_axes(threads) and _sum_of_axes(registers) and _is_mixed_radix(found)
    return found if whole else None


def _along(table: Any, axis: int) -> list[int]:
    """The values along one axis, all other indices 0."""
    place: list[Any] = [0] * table.ndim
    place[axis] = slice(None)
    return [int(value) for value in table[tuple(place)]]


def _axis(threads: list[int], registers: list[int], *, is_last: bool) -> AxisDigits | None:
    digits: list[Digit] = []
    weight, extent = 1, len(threads)
    while weight < extent:
        stride, step = threads[weight], registers[weight]
        if (stride > 0) == (step > 0) or stride < 0 or step < 0:
            return None
        count = 1
        while weight * count < extent and _is_at(threads, registers, weight * count, count * stride, count * step):
            count += 1
        if extent % (weight * count):
            return None
        is_lane = is_last and not digits and step == 1 and count & (count - 1) == 0
        digits.append(Digit(count, stride or None, 0 if stride else step, lane=is_lane))
        weight *= count
    values = np.arange(extent)
    made = [np.zeros(extent, np.int64), np.zeros(extent, np.int64)]
    for digit in digits:
        made[digit.stride is None] += values % digit.count * (digit.rank if digit.stride is None else digit.stride)
        values = values // digit.count
    return tuple(digits) if made[0].tolist() == threads and made[1].tolist() == registers else None


def _is_at(threads: list[int], registers: list[int], index: int, thread: int, register: int) -> bool:
    return threads[index] == thread and registers[index] == register


def _sum_of_axes(table: Any) -> bool:
    """Whether every axis adds its own part, whatever the other indices are."""
    total = np.zeros(table.shape, np.int64)
    for axis in range(table.ndim):
        shape = [1] * table.ndim
        shape[axis] = -1
        total = total + np.asarray(_along(table, axis)).reshape(shape)
    return bool((total == table).all())


def _is_mixed_radix(axes: Sequence[AxisDigits]) -> bool:
    """Whether every thread digit can be read off the thread's number: no two of them overlap."""
    digits = sorted((digit.stride, digit.count) for axis in axes for digit in axis if digit.stride is not None)
    return all(upper[0] % (lower[0] * lower[1]) == 0 for lower, upper in pairwise(digits))
