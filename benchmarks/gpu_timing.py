"""How `tensor_cores.py` and the peer beside it time a call: flushed, between two events, sustained or in a burst.

TileLang has a TVM of its own and is measured in a process of its own, which `tilelang` starts.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

WARM_MS, TIMED_MS, PAUSE_S = 200.0, 100.0, 0.15
BURST = 4
"""Launches of a burst."""
Call = Callable[[], Any]


class Timer:
    """Times one call: L2 flushed before each launch, between two events."""

    def __init__(self) -> None:
        self._flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def block(self, call: Call, count: int) -> list[float]:
        """Milliseconds of `count` launches."""
        events = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(count)]
        for start, end in events:
            self._flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    def sample(self, call: Call, *, burst: bool) -> list[float]:
        """A burst of a few launches after a pause, or those of `TIMED_MS` after `WARM_MS` of the same."""
        once = statistics.median(self.block(call, 3))
        if burst:
            time.sleep(PAUSE_S)
            return self.block(call, BURST)
        self.block(call, max(1, int(WARM_MS / once)))
        return self.block(call, max(3, int(TIMED_MS / once)))

    def rounds(self, calls: dict[str, Call], count: int, *, burst: bool) -> dict[str, float]:
        """Median milliseconds of every contender over `count` rounds, each in random order."""
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(count):
            for name in random.sample(list(calls), len(calls)):
                times[name] += self.sample(calls[name], burst=burst)
        return {name: statistics.median(found) for name, found in times.items()}


def tilelang(folder: Path | None, only: str, rounds: int, *, forms: str = "", burst: bool = False) -> dict[str, float]:
    """Milliseconds of TileLang's kernels by workload, of those that have `only` in their name.

    `folder` is where it is installed; nothing is measured without one, and why nothing could be is printed.
    """
    if folder is None:
        return {}
    script = Path(__file__).resolve().parent / "tilelang_peer.py"
    command = [sys.executable, str(script), "--only", only, "--forms", forms, "--rounds", str(rounds)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command += ["--burst"] * burst
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"TileLang was not measured: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return {}
    workloads = json.loads(done.stdout.strip().splitlines()[-1])["workloads"]
    for name, found in workloads.items():
        print(f"TileLang: {name}: {found.get('form') or found}", flush=True)
    return {name: float(found["ms"]) for name, found in workloads.items() if "ms" in found}
