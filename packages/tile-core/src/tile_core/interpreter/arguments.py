"""Tensors and numbers of a call as the interpreter's memory, in place wherever numpy can see the tensor's own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tile_core.dtypes import DType
from tile_core.interpreter import arithmetic
from tile_core.interpreter.space import Array
from tile_core.interpreter.storage import Storage, safe_value
from tile_core.interpreter.values import no_meaning

_BYTES = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def bind_scalar(value: Any, dtype: DType) -> Any:
    """A number as a numpy scalar of `dtype`."""
    if dtype.is_float:
        return arithmetic.converter(DType("float64"), dtype)(np.float64(value))
    return np.asarray(int(value)).astype(dtype.numpy)[()]


def bind_tensor(name: str, dtype: DType, tensor: Any) -> tuple[Storage, Array | None]:
    """The memory of a tensor argument, and the packed bytes to write back for types narrower than a byte."""
    raw = as_array(tensor)
    if dtype.bits < 8:
        packed = raw.view(np.uint8)
        values = unpack(packed, dtype.element)
        values = values.reshape(*packed.shape, dtype.lanes) if dtype.is_vector else values
        return Storage(name, dtype, "global", values, None, safe=safe_value(dtype, 0)), packed
    if dtype.is_vector:
        raise no_meaning(f"{name}, a tensor of {dtype}", None)
    data = raw if raw.dtype == dtype.numpy else raw.view(dtype.numpy)
    return Storage(name, dtype, "global", data, None, safe=safe_value(dtype, 0)), None


def as_array(tensor: Any) -> Array:
    """A numpy array over the memory of a tensor of numpy, torch, or any library that speaks DLPack."""
    if isinstance(tensor, np.ndarray):
        return tensor
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        # numpy knows neither bfloat16 nor float8; an integer view of the same width has the same memory.
        plain = tensor.detach().view(getattr(torch, _BYTES[tensor.element_size()]))
        return np.asarray(plain.numpy())
    return np.from_dlpack(tensor)


def unpack(packed: Array, dtype: DType) -> Array:
    """One value an element, from bytes whose low bits hold the first value."""
    per_byte, bits = dtype.per_byte, dtype.bits
    shifts = (np.arange(per_byte) * bits).astype(np.uint8)
    codes = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    flat = codes.reshape(*packed.shape[:-1], packed.shape[-1] * per_byte)
    if not dtype.is_int:
        return flat.view(dtype.numpy) if dtype.is_float else flat.astype(dtype.numpy)
    sign = np.uint8(1 << (bits - 1))
    return ((flat ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)


def pack(values: Array, dtype: DType) -> Array:
    """The inverse of `unpack`."""
    per_byte, bits = dtype.per_byte, dtype.bits
    raw = values.view(np.uint8) if dtype.is_float else values.astype(np.int8).view(np.uint8)
    codes = (raw & np.uint8((1 << bits) - 1)).reshape(*values.shape[:-1], -1, per_byte)
    shifts = (np.arange(per_byte) * bits).astype(np.uint8)
    return np.bitwise_or.reduce(codes << shifts, axis=-1)


def write_back(storage: Storage, packed: Array) -> None:
    """Put unpacked values back into the bytes of the tensor."""
    packed[...] = pack(storage.data.reshape(*packed.shape[:-1], -1), storage.dtype.element)
