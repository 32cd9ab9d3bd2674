"""The decorator `jit`, in both modes.

*Lazy*: a factory of compile-time arguments returns a tile program; calling it returns a kernel. *Eager*: the function
is the kernel; calling it with tensors compiles for their shapes and runs. Which one a function is shows in its source,
and is looked at on first use, so that decorating costs nothing and imports nothing.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from tile_core.errors.runtime import CompileTimeArgumentError, NotAKernelError, OutIdxError
from tile_core.jit.freeze import freeze

if TYPE_CHECKING:
    from pathlib import Path

    from tile_core.jit.artifact import Execution
    from tile_core.jit.compile import OutIdx
    from tile_core.jit.kernel import JITKernel
    from tile_core.targets.select import TargetSpec


class Mode(Protocol):
    """How one kind of function is called and compiled."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """A user's call."""

    def kernel(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments."""

    def program(self, *arguments: Any, **keywords: Any) -> Any:
        """The tile program for these arguments."""

    def key(self, *arguments: Any, **keywords: Any) -> Hashable:
        """What the kernel for these arguments is kept under."""

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """The parameters of a call that go to the kernel."""


class JITFunction:
    """A function decorated with `jit`."""

    def __init__(self, func: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.options = dict(options)
        self._mode: Mode | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Lazy: the kernel for these compile-time arguments. Eager: compile for these tensors and run."""
        mode = self._mode
        if mode is None:
            mode = self._resolve()
        return mode(*arguments, **keywords)

    def compile(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments, without running it."""
        return self._resolve().kernel(*arguments, **keywords)

    def par_compile(
        self,
        configs: Iterable[Mapping[str, Any] | Sequence[Any]],
        num_workers: int | None = None,
        ignore_error: bool = False,
    ) -> Sequence[JITKernel | None]:
        """The kernels for several sets of arguments, compiled on `num_workers` threads.

        A config is a mapping of keyword arguments or a sequence of positional ones.

        Raises:
            TileError: the first failure; with `ignore_error` a failure leaves `None` in its place.
        """
        from tile_core.jit.parallel import run_parallel

        def one(config: Mapping[str, Any] | Sequence[Any]) -> JITKernel:
            return self.compile(**config) if isinstance(config, Mapping) else self.compile(*config)

        return run_parallel(one, configs, num_workers, ignore_error=ignore_error)

    def get_tir(self, *arguments: Any, **keywords: Any) -> Any:
        """The tile program for these arguments, a `tirx.PrimFunc`."""
        return self._resolve().program(*arguments, **keywords)

    def get_kernel_source(self, *arguments: Any, **keywords: Any) -> str:
        """The device source for these arguments."""
        return self.compile(*arguments, **keywords).get_kernel_source()

    def is_lazy_mode(self) -> bool:
        """Whether the function is a factory of tile programs."""
        return isinstance(self._resolve(), LazyMode)

    def runtime_names(self) -> tuple[str, ...]:
        """The parameters that go to the kernel: none of a factory's, the tensors and scalars of an eager kernel."""
        return self._resolve().runtime_names

    def parse_cache_key(self, *arguments: Any, **keywords: Any) -> Hashable:
        """What the kernel for these arguments is kept under."""
        return self._resolve().key(*arguments, **keywords)

    def _resolve(self) -> Mode:
        if self._mode is None:
            self._mode = _mode(self.func, self.options)
        return self._mode

    def __repr__(self) -> str:
        return f"<jit {self.func.__module__}.{self.func.__qualname__}>"


@overload
def jit(func: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(
    func: None = None,
    *,
    out_idx: OutIdx = None,
    target: TargetSpec = None,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    execution: Execution | None = None,
    verbose: bool | None = None,
    debug_root_path: str | Path | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function, with or without parentheses.

    A function that returns a `@T.prim_func` is a factory: its arguments are compile-time values, and a call returns the
    `JITKernel` for them, the same object for the same values. A function that annotates its tensors and opens
    `T.Kernel` in its own body is the kernel itself: a call takes tensors, compiles once for each set of compile-time
    values, and runs.

    Args:
        func: the function; left out when options are given.
        options: as for `tile_core.compile`.

    Returns:
        A `JITFunction`, or a decorator that makes one.

    Raises:
        NotAKernelError: `func` is not a function.

    Example:
        >>> import tile_core as tl, tile_core.language as T
        >>> @tl.jit(out_idx=-1)
        ... def add(n: int, block: int = 256):
        ...     @T.prim_func
        ...     def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        ...         with T.Kernel(T.ceildiv(n, block)) as bx:
        ...             for i in T.Parallel(block):
        ...                 C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
        ...     return main
        >>> add(1000)(a, b)  # doctest: +SKIP
    """
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"jit() got an unexpected keyword argument {min(unknown)!r}")
    if func is None:
        return lambda function: _decorate(function, options)
    return _decorate(func, options)


_OPTIONS = frozenset({"out_idx", "target", "pass_configs", "compile_flags", "execution", "verbose", "debug_root_path"})


def _decorate(func: Any, options: Mapping[str, Any]) -> JITFunction:
    if not isinstance(func, types.FunctionType):
        raise NotAKernelError(
            f"jit decorates a function, got {type(func).__name__}",
            remedy="a @T.prim_func is compiled with tile_core.compile",
        )
    return JITFunction(func, options)


def _mode(func: Callable[..., Any], options: Mapping[str, Any]) -> Mode:
    from tile_core.frontend.eager import EagerFunction

    eager = EagerFunction(func)
    if eager.is_lazy:
        return LazyMode(func, options)
    if options.get("out_idx") is not None:
        raise OutIdxError(
            f"out_idx was given for {func.__name__}, which runs when it is called",
            remedy="return tensors made by T.empty instead",
        )
    from tile_core.jit.eager import EagerMode

    return EagerMode(eager, options)


class LazyMode:
    """A factory: one kernel for each set of compile-time arguments and captured values, kept as long as it lives."""

    runtime_names: tuple[str, ...] = ()

    def __init__(self, func: Callable[..., Any], options: Mapping[str, Any]) -> None:
        import inspect

        from tile_core.jit.captures import Captures

        self._func = func
        self._options = options
        self._signature = inspect.signature(func)
        self._captures = Captures(func)
        self._kernels: dict[Hashable, JITKernel] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments: the same object for the same ones, positional or by keyword."""
        key = self.key(*arguments, **keywords)
        found = self._kernels.get(key)
        if found is not None:
            return found
        made = self._compile(*arguments, **keywords)
        with self._lock:
            return self._kernels.setdefault(key, made)

    kernel = __call__

    def program(self, *arguments: Any, **keywords: Any) -> Any:
        """The program that the factory returns.

        Raises:
            NotAKernelError: it returns something else.
        """
        from tvm import tirx

        program = self._func(*arguments, **keywords)
        if not isinstance(program, tirx.PrimFunc):
            raise NotAKernelError(
                f"{self._func.__name__} returned {type(program).__name__}, expected what @T.prim_func made",
                remedy="return the inner function that is decorated with @T.prim_func",
            )
        return program

    def key(self, *arguments: Any, **keywords: Any) -> Hashable:
        """The arguments by parameter and the captured values, in hashable form.

        Raises:
            CompileTimeArgumentError: they do not fit the factory's parameters, or are not hashable.
        """
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise CompileTimeArgumentError(
                f"{self._func.__name__}{self._signature}: {error}",
                remedy="give the arguments that the factory declares",
            ) from None
        bound.apply_defaults()
        return self._captures.token(), tuple((name, freeze(value)) for name, value in bound.arguments.items())

    def _compile(self, *arguments: Any, **keywords: Any) -> JITKernel:
        from tile_core.jit.compile import compile as compile_program

        return compile_program(self.program(*arguments, **keywords), **self._options)
