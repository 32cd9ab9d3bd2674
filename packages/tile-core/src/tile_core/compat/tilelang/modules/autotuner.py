"""`tilelang.autotuner`: our tuner around TileLang's functions and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tile_core.autotune.decorator import autotune as _core_autotune
from tile_core.autotune.inputs import get_autotune_inputs, set_autotune_inputs
from tile_core.autotune.tuner import AutoTuner as CoreTuner
from tile_core.autotune.tuner import AutotuneResult as CoreResult
from tile_core.compat.tilelang.modules.jit import JITImpl, JITKernel
from tile_core.compat.tilelang.modules.params import params_of
from tile_core.compat.tilelang.modules.profiler import check_backend
from tile_core.compat.tilelang.options import compile_options, pass_options
from tile_core.compat.tilelang.table import warn_once

__all__ = ["AutoTuner", "AutotuneResult", "autotune", "get_autotune_inputs", "set_autotune_inputs"]
_PASS_CONFIGS = "pass_configs"  # noqa: S105 - passes, not passwords


@dataclass(frozen=True)
class AutotuneResult:
    """What a tuning found."""

    latency: float
    config: Mapping[str, Any]
    ref_latency: float | None
    libcode: str
    func: Any
    kernel: JITKernel

    @classmethod
    def of(cls, found: CoreResult) -> AutotuneResult:
        """The same with a kernel of TileLang's conventions."""
        kernel = JITKernel(found.kernel)
        return cls(found.latency, found.config, found.ref_latency, found.libcode, found.func, kernel)


def _configs(configs: Any) -> Any:
    """Configs whose pass configs are in our terms."""
    if callable(configs):
        return lambda *arguments, **keywords: _configs(configs(*arguments, **keywords))
    if isinstance(configs, Mapping):
        return _config(configs)
    return [_config(config) for config in configs]


def _config(config: Any) -> Any:
    if not isinstance(config, Mapping) or _PASS_CONFIGS not in config:
        return config
    own, _flags = pass_options(config[_PASS_CONFIGS])
    return {**config, _PASS_CONFIGS: own}


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Options whose `supply_prog` gets parameters as TileLang has them."""
    supply = options.get("supply_prog")
    if supply is None:
        return options
    return {**options, "supply_prog": lambda params: supply(params_of(params))}


def autotune(func: Callable[..., Any] | None = None, *, configs: Any, **options: Any) -> Callable[[JITImpl], JITImpl]:
    """`tile_core.autotune` above TileLang's `jit`."""
    decorate = _core_autotune(func, configs=_configs(configs), **_options(options))

    def wrap(function: JITImpl) -> JITImpl:
        native: Any = function.native if isinstance(function, JITImpl) else function
        return JITImpl(decorate(native))

    return wrap


class AutoTuner:
    """`tile_core.AutoTuner` with TileLang's options; `native` is the tuner behind it."""

    def __init__(self, fn: Callable[..., Any], configs: Any) -> None:
        self.native = CoreTuner(getattr(fn, "native", fn), _configs(configs))

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Any) -> Self:
        """The same as the constructor."""
        return cls(kernel, configs)

    def set_compile_args(self, out_idx: Any = None, **options: Any) -> Self:
        """Options of `tilelang.compile`."""
        self.native.set_compile_args(out_idx=out_idx, **compile_options(**options))
        return self

    def set_profile_args(self, backend: str = "event", **options: Any) -> Self:
        """How to measure and check."""
        check_backend(backend)
        self.native.set_profile_args(**_options(options))
        return self

    def set_kernel_parameters(self, k_parameters: tuple[Any, Any], f_parameters: Mapping[str, Any]) -> Self:
        """Arguments of the function that are not tuned, as positional ones and pairs."""
        del f_parameters
        positional, named = k_parameters
        self.native.set_arguments(*positional, **dict(named))
        return self

    def run(
        self,
        warmup: float = 25,
        rep: float = 100,
        timeout: float = 180,
        use_pipeline: bool = False,
        enable_grouped_compile: bool = False,
        group_compile_size: int = 2,
        benchmark_devices: Any = None,
        benchmark_multi_gpu: bool = False,
        early_stop: bool = False,
        early_stop_factor: float = 2.0,
    ) -> AutotuneResult:
        """Tune."""
        del group_compile_size
        if use_pipeline or enable_grouped_compile or benchmark_devices or benchmark_multi_gpu:
            warn_once("candidates are compiled in parallel and measured one by one: other schedules mean nothing here")
        found = self.native.run(
            warmup, rep, timeout=timeout, early_stop=early_stop, early_stop_factor=early_stop_factor
        )
        return AutotuneResult.of(found)

    def __call__(self) -> AutotuneResult:
        """`run` with its defaults."""
        return self.run()
