"""Waits between the pipes of a core: where they stand, and that the emulator's checks find each one that is missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
from tile_ascend import launches, pipes
from tile_ascend.steps import Branch, Loop, Step, Wait
from tile_core import errors

FOUND = (errors.EmulatedRaceError, errors.EmulatedFenceError, errors.EmulatedUnwrittenError, errors.EmulatedCopyError)


def waits_of(steps: list[Step]) -> list[Wait]:
    found: list[Wait] = []
    for step in steps:
        if isinstance(step, Wait):
            found.append(step)
        elif isinstance(step, Loop):
            found += waits_of(step.body)
        elif isinstance(step, Branch):
            found += waits_of(step.then) + waits_of(step.otherwise)
    return found


def without(steps: list[Step], dropped: Wait) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Loop):
            step = Loop(step.stmt, without(step.body, dropped))
        if step is not dropped:
            kept.append(step)
    return kept


def run(monkeypatch: pytest.MonkeyPatch, func: Any, dropped: int | None) -> list[Wait]:
    """Compile and run `func` with checks, without one of its waits."""
    seen: list[Wait] = []

    def with_waits(program: Any) -> list[Step]:
        steps = pipes.with_waits(program)
        seen[:] = waits_of(steps)
        return steps if dropped is None else without(steps, seen[dropped])

    monkeypatch.setattr(launches, "with_waits", with_waits)
    kernel = tl.compile(func, target="ascend", execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b = torch.randn(64, 256), torch.full((64, 256), torch.nan)
    kernel(a, b)
    torch.testing.assert_close(b, torch.softmax(a, 1))
    return seen


@pytest.mark.emulate
def test_each_wait_is_needed(softmax: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    waits = run(monkeypatch, softmax, None)
    assert [(wait.before, wait.after) for wait in waits] == [
        ("V", "MTE2"),
        ("MTE2", "V"),
        ("MTE3", "V"),
        ("V", "MTE3"),
    ]
    for number in range(len(waits)):
        with pytest.raises(FOUND):
            run(monkeypatch, softmax, number)
