"""Launching by a function of Python, for backends whose runtime is called through ctypes.

The record is what `device/host.py` describes, the cells are those of `device/split.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tile_core.device.host import SET_LAUNCHER

_CELL_BYTES, _VALUE = 16, 8
_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_int
)
Launch = Callable[[object, int, int, int, int, int, int], int]
"""Of a context, the number of a kernel, the address of its cells, the blocks along x, y and z, and a device or -1.

The result is a status, 0 for success. No exception may leave it.
"""


class _Record(ctypes.Structure):
    _fields_ = (("function", _FUNCTION), ("context", ctypes.c_void_p), ("describe", ctypes.c_void_p))


_kept: list[_Record] = []
"""Host code keeps the addresses of records, so these live as long as the process, and with them what launches."""


def set_launcher(host: Any, launch: Launch) -> None:
    """Let the host code in the module `host` launch kernels by `launch`, until the process ends."""
    record = _Record(_FUNCTION(launch), None, None)
    _kept.append(record)
    host[SET_LAUNCHER](ctypes.c_void_p(ctypes.addressof(record)))


def value_address(cells: int, position: int) -> int:
    """Where the value of the cell at `position` is, cells beginning at the address `cells`.

    >>> value_address(1000, 2)
    1040
    """
    return cells + _CELL_BYTES * position + _VALUE
