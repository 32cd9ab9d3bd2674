"""Threads of a block as fibres: barriers, deadlocks, what lanes do together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.emulate

POISON = -0x5A5A5A5B


@pytest.mark.parametrize("threads", [1, 2, 31, 33, 64, 1000, 1024])
def test_a_barrier_orders_writes_and_reads(kernels: Any, threads: int) -> None:
    found = kernels("neighbours", block=(threads, 1, 1))
    assert found.fault == "none"
    assert found.out[:threads].tolist() == [(t + 1) % threads for t in range(threads)]


def test_registers_survive_switches(kernels: Any) -> None:
    found = kernels("accumulate", block=(96, 1, 1)).out
    for thread in range(96):
        a, b, c, d = float(thread), 0.5, 1.0, np.int64(7 * thread)
        with np.errstate(over="ignore"):
            for turn in range(50):
                a += b
                b *= 1.25
                c += a * b
                d = d * np.int64(3) + np.int64(turn)
        assert found[thread] == d ^ np.int64(c)


def test_blocks_run_x_fastest(kernels: Any) -> None:
    found = kernels("count_blocks", grid=(3, 4, 5), block=(1, 1, 1))
    assert (found.out[1:61] - found.out[1]).tolist() == list(range(60))


def test_thread_indices_run_x_fastest(kernels: Any) -> None:
    found = kernels("thread_indices", block=(3, 4, 5))
    assert found.out[:60].tolist() == [x + 100 * y + 10000 * z for z in range(5) for y in range(4) for x in range(3)]


def test_shared_memory_is_poisoned_for_every_block(kernels: Any) -> None:
    assert kernels("poisoned", grid=(3, 1, 1), block=(1, 1, 1)).out[0] == POISON


def test_every_thread_has_a_stack_of_the_size_asked_for(kernels: Any) -> None:
    assert kernels("deep_stack", block=(128, 1, 1)).out[:128].tolist() == [0] * 128


def test_threads_that_end_are_not_waited_for(kernels: Any) -> None:
    found = kernels("leave_early", block=(32, 1, 1))
    assert found.fault == "none"
    assert found.out[:32:2].tolist() == [1] * 16


def test_a_deadlock_says_who_waits_for_what(kernels: Any) -> None:
    found = kernels("half_at_named", grid=(2, 1, 1), block=(64, 1, 1))
    assert found.fault == "deadlock"
    assert "block (0, 0, 0)" in found.text
    assert "threads 0 to 31 wait for a named barrier" in found.text
    assert "threads 32 to 63 wait for a barrier" in found.text


def test_a_run_after_a_deadlock_is_a_fresh_one(kernels: Any) -> None:
    assert kernels("half_at_named").fault == "deadlock"
    assert kernels("neighbours").fault == "none"


def test_a_counted_barrier_counts_threads_that_only_arrive(kernels: Any) -> None:
    found = kernels("producers_and_consumers", block=(64, 1, 1))
    assert found.out[:32].tolist() == list(range(32, 64))


@pytest.mark.parametrize("warp", [32, 64])
@pytest.mark.parametrize("threads", [64, 128, 192])
@pytest.mark.parametrize("distance", [1, 2, 16, 31])
def test_exchange_within_a_warp(kernels: Any, warp: int, threads: int, distance: int) -> None:
    found = kernels("exchange_xor", block=(threads, 1, 1), warp=warp, argument=distance)
    assert found.out[:threads].tolist() == [t ^ distance for t in range(threads)]


def test_exchange_reaches_over_the_whole_of_a_wide_warp(kernels: Any) -> None:
    assert kernels("exchange_xor", warp=64, argument=32).out[:64].tolist() == [t ^ 32 for t in range(64)]
    assert kernels("exchange_xor", warp=32, argument=32).out[:64].tolist() == list(range(64))


@pytest.mark.parametrize("warp", [32, 64])
@pytest.mark.parametrize("threads", [1, 5, 40, 70])
def test_a_short_last_warp(kernels: Any, warp: int, threads: int) -> None:
    found = kernels("exchange_xor", block=(threads, 1, 1), warp=warp, argument=1)
    assert found.fault == "none"
    assert found.out[:threads].tolist() == [t ^ 1 if t ^ 1 < threads else t for t in range(threads)]
    lanes = [[u for u in range(threads) if u // warp == t // warp] for t in range(threads)]
    total = kernels("reduce_sum", block=(threads, 1, 1), warp=warp)
    assert total.out[:threads].tolist() == [sum(lane) for lane in lanes]


@pytest.mark.parametrize("warp", [32, 64])
def test_votes_and_matches(kernels: Any, warp: int) -> None:
    threads = 2 * warp - 3
    votes = kernels("ballot_odd", block=(threads, 1, 1), warp=warp).out[:threads].view(np.uint64)
    matches = kernels("match_thirds", block=(threads, 1, 1), warp=warp).out[:threads].view(np.uint64)
    for thread in range(threads):
        first = thread // warp * warp
        present = range(first, min(first + warp, threads))
        assert votes[thread] == sum(1 << (u - first) for u in present if u % 2)
        assert matches[thread] == sum(1 << (u - first) for u in present if u % 3 == thread % 3)


def test_masks_of_one_warp_do_not_wait_for_each_other(kernels: Any) -> None:
    assert kernels("two_masks", block=(32, 1, 1)).out[:32].tolist() == [t ^ 2 for t in range(32)]


def test_a_lane_outside_of_its_own_mask_is_an_error(kernels: Any) -> None:
    found = kernels("outside_of_mask", block=(32, 1, 1))
    assert found.fault == "barrier"
    assert "without being one of them" in found.text


def test_a_lane_that_does_not_come_is_a_deadlock(kernels: Any) -> None:
    found = kernels("missing_lane", block=(32, 1, 1))
    assert found.fault == "deadlock"
    assert "thread 5 waits for a barrier" in found.text
    assert "threads 6 to 31 wait for the lanes of its warp" in found.text


def test_the_portable_switch_does_the_same(kernels: Any, portable_kernels: Any) -> None:
    for name in ("neighbours", "accumulate", "leave_early", "reduce_sum", "deep_stack"):
        wanted, found = kernels(name, block=(96, 1, 1)), portable_kernels(name, block=(96, 1, 1))
        assert found.fault == wanted.fault == "none"
        assert (found.out == wanted.out).all()
    assert portable_kernels("half_at_named").fault == "deadlock"
    assert portable_kernels("neighbours").fault == "none"
