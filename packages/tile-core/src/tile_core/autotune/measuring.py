"""Measuring and checking one candidate after another."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tile_core.autotune.inputs import Supply
from tile_core.autotune.job import Job, Outcome
from tile_core.autotune.profile import Profile
from tile_core.autotune.sandbox import Sandbox, run_in_thread
from tile_core.autotune.worker import describe, placed
from tile_core.jit.kernel import JITKernel
from tile_core.jit.profiler import compare, copied, listed
from tile_core.jit.signature import TensorParam
from tile_core.jit.timing import measure, summarize


class Bench:
    """Measures candidates; leaving the `with` block ends the process that they run in."""

    def __init__(self, profile: Profile, supply: Supply) -> None:
        self._profile = profile
        self._supply = supply
        self._sandbox = Sandbox()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._sandbox.stop()

    def inputs(self, kernel: JITKernel) -> list[Any]:
        """Inputs for `kernel`, which nobody may write to."""
        return self._supply.inputs(kernel)

    def measure(self, kernel: JITKernel, best: float | None) -> Outcome:
        """Run, check and time a candidate. `best` is the fastest one's time so far."""
        try:
            inputs = self.inputs(kernel)
            outcome = self._run(kernel, [copied(value) for value in inputs], best)
            if not outcome.error:
                self._check(kernel, inputs, outcome)
        except Exception as error:  # noqa: BLE001 - one candidate's failure, also in the user's functions, is its own
            return Outcome(error=describe(error))
        return outcome

    def _run(self, kernel: JITKernel, inputs: Sequence[Any], best: float | None) -> Outcome:
        profile, target, artifact = self._profile, kernel.target, kernel.artifact
        local = not artifact.persistent
        parameters = kernel.bind(*inputs)
        job = Job(
            target=(target.kind, target.backend, dict(target.options)),
            execution=kernel.request.execution,
            files={} if local else dict(artifact.files),
            report={} if local else dict(artifact.report),
            parameters=parameters if local else [placed(value, "cpu") for value in parameters],
            results=compared(kernel),
            device=kernel.device,
            warmup=profile.warmup,
            rep=profile.rep,
            limit=best * profile.early_stop_factor if profile.early_stop and best is not None else None,
        )
        if local:
            return run_in_thread(job, kernel.run, profile.timeout)
        return self._sandbox.run(job, profile.timeout)

    def _check(self, kernel: JITKernel, inputs: Sequence[Any], outcome: Outcome) -> None:
        profile = self._profile
        if profile.ref_prog is None or profile.skip_check:
            return
        copies = [copied(value) for value in inputs]
        returned = profile.ref_prog(*copies)
        if returned is None:
            # A reference that writes into its arguments, as the kernel does.
            order = [position for position in range(len(kernel.params)) if position not in kernel.out_idx]
            expected = [copies[order.index(position)] for position in compared(kernel)]
        else:
            expected = listed(returned)
        if profile.manual_check_prog is not None:
            profile.manual_check_prog(list(outcome.results), expected)
            return
        for number, (actual, wanted) in enumerate(zip(outcome.results, expected, strict=True)):
            compare(number, actual, placed(wanted, "cpu"), profile.atol, profile.rtol, profile.max_mismatched_ratio)

    def reference_latency(self, kernel: JITKernel) -> float | None:
        """Milliseconds of the reference on the inputs of `kernel`."""
        reference = self._profile.ref_prog
        if reference is None:
            return None
        inputs = [copied(value) for value in self.inputs(kernel)]
        times = measure(lambda: reference(*inputs), kernel.device, warmup=self._profile.warmup, rep=self._profile.rep)
        return float(summarize(times))  # type: ignore[arg-type]


def compared(kernel: JITKernel) -> tuple[int, ...]:
    """The positions of the parameters that a check looks at: the outputs, or what the kernel writes."""
    if kernel.out_idx:
        return kernel.out_idx
    params = kernel.signature.params
    return tuple(at for at, param in enumerate(params) if isinstance(param, TensorParam) and param.written)
