"""Tensors without memory that host code checks in place of those on a Metal device.

The host half of a kernel takes DLPack tensors and hands addresses to the launch. A buffer of Metal is an object, not an
address, so each tensor of a call is stood for by one with its dtype, extents and strides, whose address tells which
argument it is and how it is aligned: buffers begin at aligned addresses, and tensors at an offset in them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import tvm_ffi

DEVICE_METAL = 8
"""The DLPack number of Metal devices."""
_POSITION_BIT = 44
"""Addresses of arguments are this many bits apart: more than any buffer is long."""


class _Tensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """`DLManagedTensor`; who made it keeps it alive, so that there is nothing to delete."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class StandIn:
    """What stands for the torch tensor at `position` of a call; it must outlive what is made from it."""

    def __init__(self, tensor: Any, position: int) -> None:
        rank = tensor.dim()
        self._shape = (ctypes.c_int64 * rank)(*tensor.shape)
        self._strides = (ctypes.c_int64 * rank)(*tensor.stride())
        dtype = tvm_ffi.dtype(str(tensor.dtype).removeprefix("torch.").replace("_x2", "x2"))
        address = (position + 1 << _POSITION_BIT) + tensor.storage_offset() * tensor.element_size()
        described = _Tensor(
            address, DEVICE_METAL, 0, rank, dtype.type_code, dtype.bits, dtype.lanes, self._shape, self._strides, 0
        )
        self._managed = _Managed(described, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device, as DLPack numbers it."""
        return DEVICE_METAL, 0

    def __dlpack__(self, **_options: Any) -> Any:
        """The tensor in a capsule."""
        return _new_capsule(ctypes.addressof(self._managed), b"dltensor", None)


def position_of(address: int) -> int:
    """The position of the argument that an address stands for.

    >>> position_of((3 + 1 << 44) + 64)
    3
    """
    return (address >> _POSITION_BIT) - 1
