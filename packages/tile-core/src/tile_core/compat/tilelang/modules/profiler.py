"""`tilelang.profiler`: our profiler with TileLang's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tile_core.compat.tilelang.table import table
from tile_core.errors.compat import CompatOptionError
from tile_core.jit.profiler import Profiler as CoreProfiler
from tile_core.jit.profiler import TensorSupplyType, copied
from tile_core.jit.timing import ReturnMode, check_mode, measure, summarize

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


def check_backend(backend: str) -> None:
    """Accept TileLang's profiler backends.

    Raises:
        CompatOptionError: TileLang does not have it either.
    """
    known = table().profiler_backends
    if backend not in known:
        raise CompatOptionError(
            f"there is no profiler backend {backend!r}", remedy=f"TileLang's are {', '.join(known)}; one clock is used"
        )


class Profiler(CoreProfiler):
    """Times a kernel and compares its results."""

    @property
    def func(self) -> Any:
        """The kernel."""
        return self.kernel

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the kernel; without outputs the result is an empty list."""
        result = self.kernel(*arguments, **keywords)
        return [] if result is None else result

    def do_bench(  # type: ignore[override]
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float | list[float]:
        """Milliseconds of one call. The clock is the one of the kernel's device, whichever `backend` is named.

        Raises:
            CompatOptionError: TileLang does not have the backend either.
            ProfilerError: as `tile_core.Profiler.do_bench`.
        """
        del device, early_stop_baseline
        check_backend(backend)
        return super().do_bench(
            func,
            warmup,
            rep,
            n_warmup,
            n_repeat,
            input_tensors,
            quantiles,
            return_mode,
            sizes=dynamic_symbolic_constraints,
        )

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[..., Any] | None = None,
    ) -> None:
        """Give the kernel's results and the reference's to `manual_check_prog`, which raises where they differ."""
        tensors = self.inputs() if input_tensors is None else list(input_tensors)
        expected = reference_program(*[copied(tensor) for tensor in tensors])
        actual = self.kernel(*tensors)
        if manual_check_prog is not None:
            manual_check_prog(actual, expected)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: ReturnMode = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """Milliseconds of `fn()`, by the clock of the device that kernels run on.

    Raises:
        CompatOptionError: TileLang does not have the backend either.
        ProfilerError: an option is not known.
    """
    from tile_core.compat.tilelang.modules.utils import get_current_device

    del fast_flush, device, cache_size, early_stop_baseline
    check_backend(backend)
    check_mode(return_mode)
    clock = get_current_device().type
    times = measure(fn, clock, warmup=warmup, rep=rep, n_warmup=_n_warmup, n_repeat=_n_repeat)
    return summarize(times, return_mode, quantiles)
