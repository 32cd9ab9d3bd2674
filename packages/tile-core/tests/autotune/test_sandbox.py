"""Candidates of a backend that compiles: they are measured in a process of their own."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors
from tile_core.autotune.inputs import Supply
from tile_core.autotune.measuring import Bench
from tile_core.autotune.profile import Profile


@pytest.fixture(autouse=True)
def _compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    try:
        tl.select_target("auto")
    except errors.NoTargetError as error:
        pytest.skip(f"no backend compiles for this machine: {error.message}")


@tl.jit
def summed(n, rounds=1, block=16):
    """`S += A`, `rounds` times; a large number of rounds takes for ever."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), S: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for _ in T.serial(rounds):
                for i in T.Parallel(block):
                    S[bx * block + i] = S[bx * block + i] * 0.5 + A[bx * block + i]

    return main


def bench(**options):
    profile = Profile(warmup=0, rep=0, **options)
    return Bench(profile, Supply(profile, None))


FOREVER = 10**13


def test_a_candidate_that_hangs_is_gone_before_the_next_is_measured():
    with bench(timeout=5) as stand:
        slow, fast = summed(100, FOREVER), summed(100, 1)
        assert not stand.measure(fast, None).error
        process = stand._sandbox._process
        start = time.monotonic()
        outcome = stand.measure(slow, None)
        assert "stopped after 5 s" in outcome.error
        assert time.monotonic() - start < 30
        assert process is not None
        assert process.returncode == -signal.SIGKILL
        again = stand.measure(fast, None)
        assert not again.error
        assert again.times
        last = stand._sandbox._process
        assert last is not None
        assert last.pid != process.pid
    assert last.returncode is not None


def test_a_candidate_that_crashes_is_left_out():
    with bench(timeout=60) as stand:
        assert not stand.measure(summed(100, 1), None).error
        process = stand._sandbox._process
        assert process is not None
        threading.Timer(0.5, os.kill, (process.pid, signal.SIGSEGV)).start()
        assert "signal SIGSEGV" in stand.measure(summed(100, FOREVER), None).error
        assert not stand.measure(summed(100, 1), None).error


def test_a_tuning_from_end_to_end(capfd):
    def reference(a, s):
        s.mul_(0.5).add_(a)

    function = tl.autotune(
        configs=[{"block": 0}, {"rounds": 2}, {"block": 16}, {"block": 64}],
        ref_prog=reference,
        warmup=1,
        rep=2,
        atol=1e-6,
        rtol=1e-6,
        max_mismatched_ratio=0,
    )(summed)
    result = function.tune(1000)
    assert result.config in ({"block": 16}, {"block": 64})
    told = capfd.readouterr().err
    assert "{'block': 0} is left out" in told
    assert "{'rounds': 2} is left out: TILE-E0721" in told
    a, s = torch.rand(1000), torch.rand(1000)
    expected = s * 0.5 + a
    result.kernel(a, s)
    torch.testing.assert_close(s, expected)


def test_a_stored_choice_is_measured_alone():
    configs = [{"block": 16}, {"block": 64}]

    def tune():
        return tl.autotune(configs=configs, warmup=0, rep=0)(summed).tune(333)

    first, second = tune(), tune()
    assert second.config == first.config
    assert all(trial.latency is not None for trial in first.trials)
    assert [trial.latency is not None for trial in second.trials] == [config == first.config for config in configs]


def test_the_storing_of_choices_is_a_setting(monkeypatch):
    monkeypatch.setenv("TILE_AUTOTUNE_CACHE", "0")
    for _ in range(2):
        result = tl.autotune(configs=[{"block": 16}, {"block": 64}], warmup=0, rep=0)(summed).tune(77)
        assert all(trial.latency is not None for trial in result.trials)
