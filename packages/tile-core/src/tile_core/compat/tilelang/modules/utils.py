"""`tilelang.utils`: inputs, comparison, questions about buffers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from tile_core.jit.profiler import TensorSupplyType, compare

__all__ = [
    "TensorSupplyType",
    "deprecated",
    "get_current_device",
    "get_tensor_supply",
    "is_fragment",
    "is_global",
    "is_local",
    "is_local_var",
    "is_shared",
    "map_torch_type",
    "retrieve_shape",
    "torch_assert_close",
]
F = TypeVar("F", bound=Callable[..., Any])


def map_torch_type(dtype: Any) -> Any:
    """The torch dtype of a dtype's name."""
    from tile_core.dtypes import as_dtype

    return as_dtype(dtype).torch


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Callable[[Any], Any]:
    """A function from a kernel's parameter to a tensor for it."""
    import torch

    from tile_core.jit.profiler import values

    generator = torch.Generator().manual_seed(0)

    def supply(param: Any) -> Any:
        made = values(torch, supply_type, param.dtype, [int(extent) for extent in param.shape], generator)
        return made.to(param.dtype.torch).to(get_current_device())

    return supply


def get_current_device() -> Any:
    """Where the tensors of this process's kernels are."""
    import torch

    from tile_core.compat.tilelang.devices import runs_on_host
    from tile_core.compat.tilelang.table import table

    device = table().device
    return torch.device("cpu" if runs_on_host() or not getattr(torch, device).is_available() else device)


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    **options: Any,
) -> bool:
    """Compare two tensors, of which a share of the elements may differ.

    Raises:
        ResultMismatchError: more of them differ; it is an `AssertionError`.
    """
    del verbose, options
    compare(0, tensor_a, tensor_b, atol, rtol, max_mismatched_ratio)
    return True


def _scope(buffer: Any) -> str:
    return str(getattr(buffer, "buffer", buffer).scope)


def is_global(buffer: Any) -> bool:
    """Whether a buffer is in global memory."""
    return _scope(buffer) == "global"


def is_shared(buffer: Any, allow_dynamic: bool = True) -> bool:
    """Whether a buffer is in shared memory."""
    return _scope(buffer) == "shared" or (allow_dynamic and _scope(buffer) == "shared.dyn")


def is_fragment(buffer: Any) -> bool:
    """Whether a buffer is a fragment."""
    return _scope(buffer) == "local.fragment"


def is_local(buffer: Any) -> bool:
    """Whether a buffer is a thread's own."""
    return _scope(buffer) == "local"


def is_local_var(buffer: Any) -> bool:
    """Whether a buffer is one variable."""
    return _scope(buffer) == "local.var"


def retrieve_shape(buffer: Any) -> list[Any]:
    """The extents of a buffer or a region."""
    return list(buffer.shape)


def deprecated(method_name: str, new_method_name: str, phaseout_version: str | None = None) -> Callable[[F], F]:
    """A decorator that warns when a function is used."""
    until = f", and will be removed in {phaseout_version}" if phaseout_version else ""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def warned(*arguments: Any, **keywords: Any) -> Any:
            text = f"{method_name} is deprecated, use {new_method_name} instead{until}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*arguments, **keywords)

        return warned  # type: ignore[return-value]

    return decorate
