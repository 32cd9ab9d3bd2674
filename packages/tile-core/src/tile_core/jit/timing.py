"""How long calls take.

On the host a call returns when its work is done, so the wall clock is the right clock. On a device it returns when the
work is queued: there the device's own events are the clock, and a large buffer is overwritten before every call. That
empties the device's cache, as a kernel finds it in a real program, and keeps the device busy until the call is queued,
so that the launch's own time is not measured.

Times are milliseconds. Medians are the usual summary: on a shared machine the mean tells more about the neighbours than
about the kernel.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tile_core.errors.runtime import ProfilerError

Call = Callable[[], object]
Clock = Callable[[Call], float]
ReturnMode = Literal["median", "mean", "min", "max"]

SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}
HOST = "cpu"
_FLUSHED_BYTES = 256 * 2**20
"""More than the last cache of any device that we know of."""


def measure(
    call: Call,
    device: str = HOST,
    *,
    warmup: float = 25,
    rep: float = 100,
    n_warmup: int = 0,
    n_repeat: int = 0,
) -> list[float]:
    """The times of single calls, in milliseconds.

    Args:
        call: what is timed.
        device: where it works, as torch spells it.
        warmup: milliseconds to spend before measuring.
        rep: milliseconds to spend measuring.
        n_warmup: a number of calls instead of `warmup`, where it is not 0.
        n_repeat: a number of calls instead of `rep`, where it is not 0.

    >>> len(measure(lambda: sum(range(100)), n_warmup=2, n_repeat=5))
    5
    """
    once = clock(device)
    estimate = once(call)
    if not (n_warmup and n_repeat) and estimate < warmup:
        # The first call also pays for what is set up once.
        estimate = once(call)
    for _ in range(n_warmup or int(warmup / estimate)):
        once(call)
    return [once(call) for _ in range(n_repeat or max(1, int(rep / estimate)))]


def summarize(
    times: list[float], return_mode: ReturnMode = "median", quantiles: Sequence[float] | None = None
) -> float | list[float]:
    """One figure for several times, or their quantiles.

    Raises:
        ProfilerError: there is no such mode, or a quantile is not between 0 and 1.

    >>> summarize([3.0, 1.0, 2.0]), summarize([1.0, 3.0], quantiles=[0.5])
    (2.0, [2.0])
    """
    if quantiles is not None:
        return [_quantile(sorted(times), quantile) for quantile in quantiles]
    check_mode(return_mode)
    return SUMMARIES[return_mode](times)


def check_mode(return_mode: str) -> None:
    """Refuse a summary that there is not.

    Raises:
        ProfilerError: always then.
    """
    if return_mode not in SUMMARIES:
        raise ProfilerError(f"there is no return_mode {return_mode!r}", remedy=f"one of {', '.join(SUMMARIES)}")


def clock(device: str) -> Clock:
    """The clock for work on `device`: a function that makes one call and returns its milliseconds, never 0.

    Raises:
        ProfilerError: torch has no events for this device.
    """
    return _host_clock if device == HOST else _device_clock(device)


def _host_clock(call: Call) -> float:
    start = time.perf_counter_ns()
    call()
    return max(time.perf_counter_ns() - start, 1) / 1e6


def _device_clock(device: str) -> Clock:
    import torch

    module: Any = getattr(torch, device, None)
    if not hasattr(module, "Event"):
        raise ProfilerError(
            f"torch has no clock for the device {device!r}", remedy="install a build of torch for this device"
        )
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device=device)

    def once(call: Call) -> float:
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        flushed.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return max(float(start.elapsed_time(end)), 1e-6)

    return once


def _quantile(ordered: list[float], quantile: float) -> float:
    """Linear interpolation between the two neighbours."""
    if not 0 <= quantile <= 1:
        raise ProfilerError(
            f"the quantile {quantile} is not between 0 and 1",
            remedy="give quantiles from 0 to 1, such as [0.2, 0.5, 0.8]",
        )
    place = quantile * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
