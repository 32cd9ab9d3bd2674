"""Many programs in worker processes, each under a time limit.

A worker is a fork of this process and takes programs one after another. It announces what it begins, so that the
program and stage that killed it, or that never ended, are known; the next worker goes on behind it. Programs depend
only on the seed and their number.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import select
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tile_core.testing.fuzz.corpus import Source
from tile_core.testing.fuzz.judge import KINDS, REFERENCE, Judge, Outcome
from tile_core.testing.fuzz.mutate import mutated

PROGRAMS_A_WORKER = 100


@dataclass(frozen=True)
class Case:
    """One program of a campaign."""

    number: int
    source: Source
    text: str
    outcome: Outcome


@dataclass
class Report:
    """What came of a campaign."""

    counts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    failures: list[Case] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def programs(self) -> int:
        """How many programs were judged."""
        return sum(self.counts.values())

    def add(self, case: Case) -> None:
        """Count one case."""
        self.counts[case.outcome.kind] += 1
        self.codes[case.outcome.key] += 1
        if case.outcome.failed:
            self.failures.append(case)

    def distinct(self) -> dict[str, list[Case]]:
        """The failures by their probable cause."""
        found: dict[str, list[Case]] = {}
        for case in self.failures:
            found.setdefault(f"{case.outcome.kind}: {case.outcome.key}", []).append(case)
        return found

    def __str__(self) -> str:
        lines = [f"{self.programs} programs in {self.seconds:.0f} s"]
        lines += [f"  {self.counts[kind]:6} {kind}: {meaning}" for kind, meaning in KINDS.items() if self.counts[kind]]
        return "\n".join(lines)


@dataclass(frozen=True)
class Campaign:
    """Mutations of `sources` under one seed, judged by `judge` in `workers` processes. `limit` is seconds a program."""

    sources: Sequence[Source]
    judge: Judge
    seed: int = 0
    workers: int = 2
    limit: float = 30.0

    def program(self, number: int) -> tuple[Source, str]:
        """The program with this number: where it comes from and its text."""
        rng = random.Random(f"{self.seed}:{number}")
        source = self.sources[rng.randrange(len(self.sources))]
        return source, mutated(source.text, rng)

    def run(self, numbers: Sequence[int], told: Callable[[Case], None] = lambda case: None) -> Report:
        """Judge the programs with these numbers; `told` hears of each as it is done."""
        self.judge.load()
        report, start = Report(), time.perf_counter()
        waiting = [list(numbers[first :: self.workers]) for first in range(self.workers)]
        running: dict[int, _Worker] = {}
        while waiting or running:
            while waiting and len(running) < self.workers:
                mine = waiting.pop()
                if mine:
                    worker = _Worker(self, mine)
                    running[worker.pipe] = worker
            ready, _, _ = select.select(list(running), [], [], 0.5)
            for pipe, worker in list(running.items()):
                for case in worker.take(pipe in ready):
                    report.add(case)
                    told(case)
                if worker.ended:
                    del running[pipe]
                    waiting.append(worker.numbers)
        report.seconds = time.perf_counter() - start
        return report

    def alone(self, source: Source, text: str) -> Outcome:
        """The outcome of one text, in a process of its own."""
        single = _Single((source,), self.judge, self.seed, 1, self.limit, text)
        return _only(single.run([0]).counts, single)


@dataclass(frozen=True)
class _Single(Campaign):
    """A campaign of one given text."""

    text: str = ""
    seen: list[Outcome] = field(default_factory=list)

    def program(self, number: int) -> tuple[Source, str]:
        return self.sources[0], self.text

    def run(self, numbers: Sequence[int], told: Callable[[Case], None] = lambda case: None) -> Report:
        return super().run(numbers, lambda case: self.seen.append(case.outcome))


def _only(_counts: Counter[str], single: _Single) -> Outcome:
    return single.seen[0]


class _Worker:
    """A forked process, and what it said so far."""

    def __init__(self, campaign: Campaign, numbers: list[int]) -> None:
        self.campaign = campaign
        self.numbers = numbers
        self.ended = False
        self.current: int | None = None
        self.stage = ""
        self.began = time.monotonic()
        self._buffer = b""
        self._log = tempfile.NamedTemporaryFile(prefix="tile-fuzz-", delete=False)  # noqa: SIM115
        self.pipe, out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _work(campaign, numbers[:PROGRAMS_A_WORKER], out, self._log.fileno())
        os.close(out)

    def take(self, ready: bool) -> Iterator[Case]:
        """The cases that are done since the last time."""
        if ready:
            data = os.read(self.pipe, 1 << 16)
            self._buffer += data
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                yield from self._heard(json.loads(line))
            if not data:
                yield from self._end()
                return
        if time.monotonic() - self.began > self.campaign.limit:
            os.kill(self.pid, signal.SIGKILL)
            kind = "slow" if self.stage == REFERENCE else "hang"
            if self.current is not None:
                yield self._case(Outcome(kind, self.stage, f"longer than {self.campaign.limit:g} s", kind))
            yield from self._end()

    def _heard(self, message: dict[str, Any]) -> Iterator[Case]:
        self.began = time.monotonic()
        if "begin" in message:
            self.current, self.stage = message["begin"], "mutate"
        elif "stage" in message:
            self.stage = message["stage"]
        else:
            yield self._case(Outcome(**message["outcome"]))

    def _case(self, outcome: Outcome) -> Case:
        assert self.current is not None
        number, self.current = self.current, None
        self.numbers = self.numbers[self.numbers.index(number) + 1 :]
        return Case(number, *self.campaign.program(number), outcome)

    def _end(self) -> Iterator[Case]:
        self.ended = True
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if self.current is not None:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            trace = Path(self._log.name).read_text(errors="replace")[-3000:]
            yield self._case(Outcome("crash", self.stage, f"{how} in {self.stage}\n{trace}", f"{how} in {self.stage}"))
        self._log.close()
        Path(self._log.name).unlink()


def _work(campaign: Campaign, numbers: list[int], out: int, log: int) -> None:
    """What a worker does; never returns."""

    def say(**message: Any) -> None:
        os.write(out, json.dumps(message).encode() + b"\n")

    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(log)
    judge = replace(campaign.judge, at=lambda stage: say(stage=stage))
    try:
        for number in numbers:
            say(begin=number)
            source, text = campaign.program(number)
            say(outcome=judge(source, text, f"<program {number}>").as_dict())
        os._exit(0)
    except BaseException:
        os.write(log, traceback.format_exc().encode())
        os._exit(1)
