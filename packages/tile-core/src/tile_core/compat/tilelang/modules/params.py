"""Parameters of kernels with the questions that TileLang's answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tile_core.dtypes import DType
from tile_core.jit.kernel import KernelParam as CoreParam

__all__ = ["KernelParam", "params_of"]

_FLOAT8, _FLOAT4 = 8, 4


@dataclass(frozen=True)
class KernelParam(CoreParam):
    """One parameter: its name, dtype and shape."""

    def is_scalar(self) -> bool:
        """Whether it is a number."""
        return not self.shape

    def is_unsigned(self) -> bool:
        """Whether its dtype is an unsigned integer."""
        return self.dtype.is_unsigned

    def is_boolean(self) -> bool:
        """Whether its dtype is bool."""
        return self.dtype.is_bool

    def is_float8(self) -> bool:
        """Whether its dtype is a float of 8 bits."""
        return self.dtype.is_float and self.dtype.bits == _FLOAT8

    def is_float4(self) -> bool:
        """Whether its dtype is a float of 4 bits."""
        return self.dtype.is_float and self.dtype.bits == _FLOAT4

    def torch_dtype(self) -> Any:
        """The dtype as torch has it."""
        return self.dtype.torch

    def tilelang_dtype(self) -> DType:
        """The dtype as the language has it."""
        return self.dtype


def params_of(params: Iterable[CoreParam]) -> list[KernelParam]:
    """The same parameters with TileLang's methods."""
    return [KernelParam(param.name, param.dtype, param.shape) for param in params]
