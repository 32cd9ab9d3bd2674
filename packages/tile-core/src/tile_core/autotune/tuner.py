"""The tuner: compile all candidates, measure them one by one, keep the fastest that is right.

Candidates are compiled before any is measured, because compiling on the same cores would disturb the measurement.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

from tile_core.autotune.candidates import Factory, as_factory, read_configs
from tile_core.autotune.inputs import Supply
from tile_core.autotune.measuring import Bench
from tile_core.autotune.profile import Profile
from tile_core.autotune.store import choice_key, read_choice, write_choice
from tile_core.autotune.worker import describe
from tile_core.errors.autotune import AutotuneFailedError
from tile_core.jit.kernel import JITKernel, Tuning
from tile_core.settings import settings

Config = Mapping[str, Any]


@dataclass
class Trial:
    """One candidate: its config and what became of it. `latency` is in milliseconds; `error` says why it was left out.

    `given_up`: `early_stop` ended its measurement, because it was slower than the best one by far.
    """

    config: Config
    kernel: JITKernel | None = field(default=None, repr=False)
    latency: float | None = None
    error: str = ""
    given_up: bool = False


@dataclass(frozen=True)
class AutotuneResult:
    """What a tuning found: the best config and its kernel, times in milliseconds, and every candidate."""

    config: Config
    kernel: JITKernel
    latency: float
    ref_latency: float | None
    trials: tuple[Trial, ...]

    @property
    def func(self) -> Any:
        """The tile program of the best kernel."""
        return self.kernel.program

    @property
    def libcode(self) -> str:
        """The device source of the best kernel."""
        return self.kernel.kernel_source


class AutoTuner:
    """Tunes one kernel function for one set of arguments.

    Args:
        function: a `jit` function, or a plain factory of tile programs.
        configs: mappings of the function's parameters to values, or a function of its arguments that returns them.
            The key `pass_configs` gives one candidate pass options of its own.

    Raises:
        AutotuneConfigError: the configs cannot be used.

    Example:
        >>> tuner = AutoTuner.from_kernel(add, configs=[{"block": 64}, {"block": 256}])  # doctest: +SKIP
        >>> tuner.set_compile_args(out_idx=-1).set_profile_args(ref_prog=torch.add).run().config  # doctest: +SKIP
        {'block': 256}
    """

    def __init__(self, function: Callable[..., Any], configs: Iterable[Config] | Callable[..., Any]) -> None:
        self._function = function
        self._configs = configs
        self._options: dict[str, Any] = {}
        self._profile = Profile()
        self._arguments: tuple[Any, ...] = ()
        self._keywords: dict[str, Any] = {}
        self._inputs: Sequence[Any] | None = None

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Iterable[Config] | Callable[..., Any]) -> Self:
        """The same as the constructor."""
        return cls(kernel, configs)

    def set_compile_args(self, **options: Any) -> Self:
        """Options of `tile_core.compile`; for a `jit` function they win over its own."""
        self._options.update({name: value for name, value in options.items() if value is not None})
        return self

    def set_profile_args(self, profile: Profile | None = None, **options: Any) -> Self:
        """How to measure and check: the fields of `Profile`, or one as a whole.

        Raises:
            AutotuneOptionError: an option that there is not, or a number out of range.
        """
        self._profile = (profile or self._profile).changed(**options)
        return self

    def set_arguments(self, *arguments: Any, **keywords: Any) -> Self:
        """Arguments of the function that are not tuned."""
        self._arguments, self._keywords = arguments, keywords
        return self

    def set_inputs(self, inputs: Sequence[Any] | None) -> Self:
        """Inputs to measure on, where neither `set_autotune_inputs` nor `supply_prog` gives them; they are copied."""
        self._inputs = inputs
        return self

    def run(self, warmup: float | None = None, rep: float | None = None, **options: Any) -> AutotuneResult:
        """Tune.

        `warmup`, `rep` and `options` change the profile for this run.

        Raises:
            AutotuneConfigError: the configs cannot be used.
            AutotuneFailedError: no candidate is right.
        """
        profile = self._profile.changed(warmup=warmup, rep=rep, **options)
        configs = read_configs(self._configs, self._function, self._arguments, self._keywords)
        factory = as_factory(self._function, self._options, self._arguments, self._keywords)
        trials = _compiled(factory, configs)
        with Bench(profile, Supply(profile, self._inputs)) as bench:
            choice = _choice(bench, trials)
            found = _stored(bench, trials, choice) or _measured(bench, trials)
            if found is None or found.kernel is None:
                raise _failure(trials)
            write_choice(choice, found.kernel.key)
            return _result(bench, found, trials)


def _compiled(factory: Factory, configs: Sequence[Config]) -> list[Trial]:
    """Compile every candidate; what fails is told and left out."""
    with ThreadPoolExecutor(settings.autotune_workers or os.cpu_count()) as pool:
        futures = [pool.submit(factory, config) for config in configs]
    return [_trial(config, future) for config, future in zip(configs, futures, strict=True)]


def _trial(config: Config, future: Future[JITKernel]) -> Trial:
    error = future.exception()
    if error is None:
        return Trial(config, future.result())
    if not isinstance(error, Exception):
        raise error
    trial = Trial(config, error=describe(error))
    _tell(trial)
    return trial


def _stored(bench: Bench, trials: Sequence[Trial], choice: str) -> Trial | None:
    """The candidate that won an equal tuning before, measured again; `None` where there was none or it fails now."""
    known = read_choice(choice)
    found = next((trial for trial in trials if trial.kernel is not None and trial.kernel.key == known), None)
    return found if found is not None and _measure(bench, found, None) else None


def _choice(bench: Bench, trials: Sequence[Trial]) -> str:
    kernels = [trial.kernel for trial in trials if trial.kernel is not None]
    if not kernels:
        raise _failure(trials)
    return choice_key([kernel.key for kernel in kernels], bench.inputs(kernels[0]), kernels[0].device)


def _measured(bench: Bench, trials: Sequence[Trial]) -> Trial | None:
    """Measure every candidate; the fastest."""
    best: Trial | None = None
    for trial in trials:
        if trial.kernel is None or trial.error:
            continue
        right = _measure(bench, trial, None if best is None else best.latency)
        if right and (best is None or (trial.latency or 0) < (best.latency or 0)):
            best = trial
    return best


def _measure(bench: Bench, trial: Trial, best: float | None) -> bool:
    """Measure one candidate; whether it is right and was measured to the end."""
    assert trial.kernel is not None
    outcome = bench.measure(trial.kernel, best)
    trial.error, trial.given_up = outcome.error, outcome.given_up
    if outcome.error:
        _tell(trial)
        return False
    trial.latency = statistics.median(outcome.times)
    return not outcome.given_up


def _result(bench: Bench, best: Trial, trials: Sequence[Trial]) -> AutotuneResult:
    assert best.kernel is not None
    assert best.latency is not None
    reference = bench.reference_latency(best.kernel)
    best.kernel.tuning = Tuning(dict(best.config), best.latency, reference)
    return AutotuneResult(dict(best.config), best.kernel, best.latency, reference, tuple(trials))


def _tell(trial: Trial) -> None:
    sys.stderr.write(f"tile: autotune: {dict(trial.config)} is left out: {trial.error}\n")


def _failure(trials: Sequence[Trial]) -> AutotuneFailedError:
    reasons = "\n".join(f"  {dict(trial.config)}: {trial.error}" for trial in trials)
    return AutotuneFailedError(
        f"none of {len(trials)} candidates can be used:\n{reasons}",
        remedy="correct the kernel for one of these configs, or add others",
    )
