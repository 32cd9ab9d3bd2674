"""Arguments for a kernel whose parameters a mutation changed: those that no longer fit are made anew."""

from __future__ import annotations

from typing import Any

import torch

from tile_core.dtypes import as_dtype
from tile_core.errors.dtypes import DTypeMappingError
from tile_core.jit.kernel import JITKernel
from tile_core.jit.signature import TensorParam

MAX_ELEMENTS = 1 << 22


def fitted(kernel: JITKernel, arguments: tuple[Any, ...]) -> list[Any]:
    """`arguments`, with a tensor of small integers in the place of each that has another shape or dtype than declared.

    What cannot be made (symbolic or strided shapes, dtypes that torch lacks) stays as it is, for the kernel to refuse.
    """
    inputs = [param for position, param in enumerate(kernel.signature.params) if position not in kernel.out_idx]
    if len(inputs) != len(arguments):
        return list(arguments)
    return [_fitted(param, value, seed) for seed, (param, value) in enumerate(zip(inputs, arguments, strict=True))]


def _fitted(param: Any, value: Any, seed: int) -> Any:
    if not isinstance(param, TensorParam) or not isinstance(value, torch.Tensor) or param.strides is not None:
        return value
    shape = tuple(extent for extent in param.shape if isinstance(extent, int))
    if len(shape) != len(param.shape) or torch.Size(shape).numel() > MAX_ELEMENTS:
        return value
    try:
        dtype = as_dtype(param.dtype).torch
    except DTypeMappingError:
        return value
    if tuple(value.shape) == shape and value.dtype == dtype:
        return value
    if param.per_storage > 1:
        return value
    small = torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(seed))
    return small.to(dtype)
