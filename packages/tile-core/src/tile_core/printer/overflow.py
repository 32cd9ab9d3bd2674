"""Where signed integers are added, subtracted and multiplied as unsigned ones, so that they wrap as programs say.

C leaves the overflow of signed integers undefined (ISO C 6.5, paragraph 5): a compiler may take `x + 1 > x` for true,
and `x * 8 / 8` for `x`. Values of a program wrap. Most arithmetic is on indices of blocks, threads and loops, which
stay in range; what can leave it comes from memory and from arguments, or from indices whose bounds are known and too
large. Only where such a value is looked at otherwise than by storing it to global memory (compared, divided, converted,
named, an index) can the difference be seen: only there it is printed through a helper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import ir

from tile_core.ir import visit
from tile_core.printer.intervals import Intervals

Node = Any
_WRAPPING = ("int32", "int64")


class Overflow:
    """What comes from memory and arguments, and whether what is printed now is looked at."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._data: set[Node] = set()
        self._is_seen = False

    def bind(self, var: Node, value: Node = None) -> None:
        """State that a variable is an argument, or stands for `value`."""
        if value is None or self._is_data(value):
            self._data.add(var)

    @contextmanager
    def seen(self, *, by: bool = True) -> Iterator[None]:
        """What is printed here is looked at `by` something that tells wrapped values from others, or by nothing."""
        before, self._is_seen = self._is_seen, by
        try:
            yield
        finally:
            self._is_seen = before

    def wraps(self, node: Node) -> bool:
        """Whether a sum, difference or product has to be computed as an unsigned one."""
        if not self._is_seen or str(node.ty.dtype) not in _WRAPPING:
            return False
        return self._intervals.overflows(node) and (self._is_data(node) or self._intervals.knows(node))

    def _is_data(self, node: Node) -> bool:
        if visit.collect(node, ir.TensorLoad) or visit.collect(node, ir.Call):
            return True
        return any(var in self._data for var in visit.collect(node, ir.Var))
