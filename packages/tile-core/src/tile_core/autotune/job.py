"""One measurement: what it needs, what it gives, and how it is done; all of it can go to another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_SHORT_CALLS = 3


@dataclass(frozen=True)
class Job:
    """A compiled kernel and a call. `results` are the positions of the parameters whose values are wanted back.

    `limit`: milliseconds above which a short measurement ends the job.
    """

    target: tuple[str, str, Mapping[str, Any]]
    execution: str
    files: Mapping[str, bytes]
    report: Mapping[str, Any]
    parameters: Sequence[Any]
    results: tuple[int, ...]
    device: str
    warmup: float
    rep: float
    limit: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a job. `error` is empty where it ended well; `given_up` where it was slower than its limit."""

    times: Sequence[float] = ()
    results: Sequence[Any] = field(default=(), repr=False)
    error: str = ""
    given_up: bool = False


def perform(job: Job, run: Callable[..., Any]) -> Outcome:
    """Call once for the results, then measure."""
    from tile_core.jit.profiler import copied
    from tile_core.jit.timing import measure

    run(*job.parameters)
    results = [copied(job.parameters[position]) for position in job.results]

    def call() -> None:
        run(*job.parameters)

    if job.limit is not None:
        short = measure(call, job.device, n_warmup=1, n_repeat=_SHORT_CALLS)
        if min(short) > job.limit:
            return Outcome(short, results, given_up=True)
    return Outcome(measure(call, job.device, warmup=job.warmup, rep=job.rep), results)
