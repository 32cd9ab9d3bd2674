"""`tilelang.jit`: `jit`, `compile`, and the kernels that they return.

TileLang's kernels return an empty list where ours return nothing, so kernels and functions are wrapped; everything else
is the wrapped object's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from tile_core.compat.tilelang.devices import REMEDY
from tile_core.compat.tilelang.modules.params import KernelParam, params_of
from tile_core.compat.tilelang.modules.profiler import Profiler
from tile_core.compat.tilelang.options import compile_options
from tile_core.errors.compat import CompatAttributeError
from tile_core.errors.runtime import NoDeviceError
from tile_core.jit import compile as _core_compile
from tile_core.jit.jit import JITFunction
from tile_core.jit.jit import jit as _core_jit
from tile_core.jit.kernel import JITKernel as CoreKernel
from tile_core.jit.kernel import Tuning
from tile_core.jit.parallel import run_parallel
from tile_core.jit.profiler import TensorSupplyType

__all__ = ["JITImpl", "JITKernel", "KernelParam", "compile", "jit", "par_compile"]

_ABSENT = {
    "adapter": "a kernel is the packed function itself; call it",
    "artifact": "get_kernel_source() and report() tell what was compiled",
    "execution_backend_spec": "a kernel is always one packed function",
    "export_library": "the kernel cache keeps compiled kernels",
    "export_ptx": "kernel.native.artifact.files holds what was compiled",
    "export_sass": "kernel.native.artifact.files holds what was compiled",
    "from_database": "the kernel cache keeps compiled kernels",
    "n_max_threads": "kernel.report() tells what a kernel uses",
    "n_regs": "kernel.report() tells what a kernel uses",
    "n_spills": "kernel.report() tells what a kernel uses",
    "resource_usage": "kernel.report() tells what a kernel uses",
    "show_ptx": "get_kernel_source() is what the compiler got",
    "show_sass": "get_kernel_source() is what the compiler got",
}


class JITKernel:
    """A kernel of a TileLang program; `native` is the kernel behind it."""

    def __init__(self, native: CoreKernel) -> None:
        self.native = native

    @classmethod
    def from_tilelang_function(cls, tilelang_func: Any, **options: Any) -> JITKernel:
        """The same as `compile`."""
        return compile(tilelang_func, **options)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run. Without outputs the result is an empty list, with several a list.

        Raises:
            NoDeviceError: the kernel's target is absent; the error says how the runner goes on.
            ArgumentError: an argument is wrong.
        """
        try:
            result = self.native(*arguments, **keywords)
        except NoDeviceError as error:
            raise NoDeviceError(error.message, remedy=REMEDY) from None
        return [] if result is None else result

    @property
    def torch_function(self) -> JITKernel:
        """The kernel as a function of tensors: itself."""
        return self

    @property
    def prim_func(self) -> Any:
        """The tile program."""
        return self.native.program

    @property
    def params(self) -> list[KernelParam]:
        """Every parameter in order."""
        return params_of(self.native.params)

    @property
    def out_idx(self) -> list[int]:
        """The positions of the outputs."""
        return list(self.native.out_idx)

    def get_profiler(self, tensor_supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Profiler:
        """A profiler for this kernel."""
        return Profiler(self.native, tensor_supply_type)

    def run_once(self, func: Callable[..., Any] | None = None) -> None:
        """One call with made inputs."""
        self.get_profiler().run_once(func)

    def print_source_code(self, which: str = "kernel", file: str | None = None) -> None:
        """Print the source, or write it to a file."""
        if file is None:
            self.native.show_source(which)  # type: ignore[arg-type]
        else:
            self.native.export_sources(kernel_path=file)

    def update_tuner_result(self, latency: float, config: Mapping[str, Any], ref_latency: float | None) -> JITKernel:
        """Keep what a tuner found out."""
        self.native.tuning = Tuning(dict(config), latency, ref_latency)
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """Latency, config and the reference's latency.

        Raises:
            CompatAttributeError: the kernel was not tuned.
        """
        if self.native.tuning is None:
            raise CompatAttributeError("this kernel was not tuned", remedy="put @tilelang.autotune above @tilelang.jit")
        return {"latency": self.native.latency, "config": self.native.config, "ref_latency": self.native.ref_latency}

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise CompatAttributeError(f"JITKernel.{name} of TileLang does not exist here", remedy=_ABSENT[name])
        if name == "native":
            raise AttributeError(name)
        return getattr(self.native, name)

    def __repr__(self) -> str:
        return repr(self.native)


def compile(  # noqa: A001 - TileLang's name
    func: Any = None,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> JITKernel:
    """`tile_core.compile` with TileLang's options."""
    options = compile_options(
        target=target,
        target_host=target_host,
        execution_backend=execution_backend,
        verbose=verbose,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
    )
    return JITKernel(_core_compile.compile(func, out_idx, **options))


def par_compile(
    funcs: Iterable[Any],
    out_idx: int | Sequence[int] | None = None,
    *arguments: Any,
    num_workers: int | None = None,
    ignore_error: bool = False,
    **options: Any,
) -> list[JITKernel | None]:
    """`compile` of several programs at once."""

    def one(func: Any) -> JITKernel:
        return compile(func, out_idx, *arguments, **options)

    return list(run_parallel(one, funcs, num_workers, ignore_error=ignore_error))


class JITImpl:
    """A function decorated with `jit`; `native` is what `tile_core.jit` made of it."""

    def __init__(self, native: Callable[..., Any]) -> None:
        functools.update_wrapper(self, native)
        self.native = native
        self._wrapped: dict[int, JITKernel] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Lazy: the kernel for these arguments, the same object for the same ones. Eager: run."""
        result = self.native(*arguments, **keywords)
        if isinstance(result, CoreKernel):
            return self._wrap(result)
        return [] if result is None else result

    def compile(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments, without running it."""
        return self._wrap(self.native.compile(*arguments, **keywords))  # type: ignore[attr-defined]

    def _wrap(self, kernel: CoreKernel) -> JITKernel:
        """One wrapper for each kernel, which it keeps alive."""
        return self._wrapped.setdefault(id(kernel), JITKernel(kernel))

    def par_compile(
        self, configs: Iterable[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """The kernels for several sets of arguments."""

        def one(config: Any) -> JITKernel:
            return self.compile(**config) if isinstance(config, Mapping) else self.compile(*config)

        return list(run_parallel(one, configs, num_workers, ignore_error=ignore_error))

    def initialize_jit_mode(self, *_arguments: Any, **_keywords: Any) -> str:
        """The mode: "lazy" for a factory of programs, "eager" for a kernel."""
        return "lazy" if self.is_lazy_mode() else "eager"

    def is_lazy_mode(self) -> bool:
        """Whether the function is a factory of programs."""
        return bool(self.native.is_lazy_mode())  # type: ignore[attr-defined]

    def parse_cache_key(self, *arguments: Any, **keywords: Any) -> Hashable:
        """What the kernel for these arguments is kept under."""
        key: Hashable = self.native.parse_cache_key(*arguments, **keywords)  # type: ignore[attr-defined]
        return key

    @property
    def signature(self) -> inspect.Signature:
        """The function's signature."""
        return inspect.signature(self.native.func)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        if name == "native":
            raise AttributeError(name)
        return getattr(self.native, name)

    def __repr__(self) -> str:
        return repr(self.native)


def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Any:
    """`tile_core.jit` with TileLang's options."""
    options = compile_options(
        target=target,
        target_host=target_host,
        execution_backend=execution_backend,
        verbose=verbose,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        debug_root_path=debug_root_path,
    )

    def decorate(function: Callable[..., Any]) -> JITImpl:
        made: JITFunction = _core_jit(out_idx=out_idx, **options)(function)
        return JITImpl(made)

    return decorate if func is None else decorate(func)
