"""`tilelang.engine`: `lower`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile_core.compat.tilelang.modules.jit import compile as _compile
from tile_core.compat.tilelang.modules.params import KernelParam
from tile_core.errors.compat import CompatAttributeError

__all__ = ["CompiledArtifact", "KernelParam", "lower"]


@dataclass(frozen=True)
class CompiledArtifact:
    """What `lower` returns: the source of a kernel and its parameters."""

    kernel_source: str
    params: Sequence[KernelParam]

    def __getattr__(self, name: str) -> Any:
        if name in ("device_mod", "host_mod", "rt_mod"):
            raise CompatAttributeError(
                f"CompiledArtifact.{name} of TileLang does not exist here",
                remedy="tilelang.compile makes a kernel that runs",
            )
        raise AttributeError(name)


def lower(
    func_or_mod: Any,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """Compile a program for its source."""
    del runtime_only, enable_host_codegen, enable_device_compile
    kernel = _compile(func_or_mod, target=target, target_host=target_host)
    return CompiledArtifact(kernel.get_kernel_source(), kernel.params)
