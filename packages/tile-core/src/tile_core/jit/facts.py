"""What the checks see of a tensor of any library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi

from tile_core.errors.runtime import ArgumentLayoutError
from tile_core.jit.signature import TensorParam


@dataclass(frozen=True)
class Facts:
    """A tensor as the checks see it; extents and strides count stored elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    address: int | None
    writable: bool = True


def describe(value: Any) -> Facts | None:
    """The facts of a tensor of any library, `None` for anything else.

    Raises:
        ArgumentLayoutError: a torch tensor that is not plain memory (sparse, quantised, lazily conjugated, fake).
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _describe_torch(torch, value)
    if isinstance(value, np.ndarray):
        size = value.dtype.itemsize
        strides = tuple(stride // size if stride % size == 0 else -1 for stride in value.strides)
        address = value.__array_interface__["data"][0]
        dtype = value.dtype.name if value.dtype.isnative else value.dtype.str
        return Facts(dtype, value.shape, strides, "cpu", address, bool(value.flags.writeable))
    if isinstance(value, tvm_ffi.Tensor) or hasattr(type(value), "__dlpack__"):
        return _describe_foreign(value)
    return None


_OF_NO_TORCH = frozenset((np.ndarray, int, float, bool))
"""Types of arguments of which that is known at once: asking torch takes longer."""


def any_lazy_sign(arguments: tuple[Any, ...]) -> bool:
    """Whether an argument is a torch view whose elements are the negatives of what lies in memory.

    Nothing in the memory says so: such a view must be found before its address is handed on.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    tensor = torch.Tensor
    for value in arguments:  # noqa: SIM110 - a generator would cost as much as the questions
        if type(value) not in _OF_NO_TORCH and isinstance(value, tensor) and value.is_neg():
            return True
    return False


def _describe_torch(torch: Any, value: Any) -> Facts:
    if value.layout is not torch.strided or value.is_nested or value.is_quantized:
        raise ArgumentLayoutError(
            "it is sparse, nested or quantised, which is not plain memory",
            remedy="pass a dense tensor: tensor.to_dense()",
        )
    if value.is_conj() or value.is_neg():
        raise ArgumentLayoutError(
            "its conjugate or negative is not computed yet",
            remedy="compute it first: tensor.resolve_conj().resolve_neg()",
        )
    dtype = str(value.dtype).removeprefix("torch.").replace("_x2", "x2")
    return Facts(dtype, tuple(value.shape), tuple(value.stride()), str(value.device), _address(value))


def _address(value: Any) -> int | None:
    """Where the elements are; `None` for a meta tensor, which its device already says."""
    if value.device.type == "meta":
        return None
    try:
        address = int(value.data_ptr())
    except RuntimeError:
        address = 0
    if address == 0 and value.numel():
        raise ArgumentLayoutError(
            "it has no memory: it stands for a tensor in a trace or a transformation of torch",
            remedy="call the kernel outside of the trace, or wrap it as a custom operator of torch",
        )
    return address


def _describe_foreign(value: Any) -> Facts | None:
    try:
        tensor = value if isinstance(value, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    # The array's own pointer is not exposed; its alignment was checked by the entry, or is the library's business.
    return Facts(str(tensor.dtype), tuple(tensor.shape), tuple(tensor.strides), str(tensor.device), None)


def logical_shape(param: TensorParam, facts: Facts) -> tuple[int, ...]:
    """Extents in elements: a byte of storage holds several elements of a dtype narrower than a byte."""
    if param.per_storage == 1 or not facts.shape:
        return facts.shape
    return (*facts.shape[:-1], facts.shape[-1] * param.per_storage)


def logical_strides(param: TensorParam, facts: Facts) -> tuple[int, ...]:
    """Strides in elements."""
    if param.per_storage == 1 or not facts.strides:
        return facts.strides
    return (*(stride * param.per_storage for stride in facts.strides[:-1]), facts.strides[-1])


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, running = [], 1
    for extent in reversed(shape):
        strides.append(running)
        running *= extent
    return tuple(reversed(strides))
