"""The checks on kernels written on the emulator itself: what is a fault, what is not, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.emulate


def test_a_missing_barrier_is_a_race_with_both_places(kernels: Any) -> None:
    found = kernels("dropped_barrier", checked=4)
    assert found.fault in ("race", "unwritten")
    assert kernels("dropped_barrier", checked=4, argument=1).fault == "none"


def test_a_read_before_the_write_of_another_thread_is_a_race(kernels: Any) -> None:
    found = kernels("read_then_write", checked=4)
    assert found.fault == "race"
    assert found.site == 1
    assert "thread (0, 0, 0) of block (0, 0, 0) writes S[0], which thread (63, 0, 0) reads (k.py:3)" in found.text
    assert "no barrier is between them" in found.text
    assert kernels("read_then_write", checked=4, argument=1).fault == "none"


@pytest.mark.parametrize("cell", [1, 2, 4])
def test_writing_one_value_is_no_race_and_two_values_are(kernels: Any, cell: int) -> None:
    assert kernels("same_value", checked=cell).fault == "none"
    found = kernels("other_value", checked=cell)
    assert found.fault == "race"
    assert "thread (1, 0, 0) of block (0, 0, 0) writes S[0], which thread (0, 0, 0) wrote (k.py:2)" in found.text


def test_atomic_updates_do_not_race_with_each_other_but_with_reads(kernels: Any) -> None:
    done = kernels("atomic_updates", checked=4, argument=1)
    assert done.fault == "none"
    assert done.out[:64].tolist() == [64] * 64
    found = kernels("atomic_updates", checked=4)
    assert found.fault == "race"
    assert "updates S[0]" in found.text or "updated" in found.text


def test_blocks_of_a_launch_race_and_launches_do_not(kernels: Any) -> None:
    assert kernels("blocks_write_one_element", grid=(8, 1, 1), checked=8).fault == "none"
    found = kernels("blocks_write_one_element", grid=(8, 1, 1), checked=8, argument=1)
    assert found.fault == "race"
    assert "thread (0, 0, 0) of block (1, 0, 0) writes A[0]" in found.text
    assert "nothing orders the blocks of a launch" in found.text
    assert kernels("blocks_write_one_element", grid=(1, 1, 1), checked=8, argument=1).fault == "none"


def test_shared_memory_of_another_block_counts_as_unwritten(kernels: Any) -> None:
    assert kernels("dropped_barrier", checked=4, argument=1).fault == "none"
    found = kernels("unwritten_shared", checked=4)
    assert found.fault == "unwritten"
    assert "thread (0, 0, 0) of block (0, 0, 0) reads S[0], which nothing has written" in found.text


def test_local_memory_is_tracked_by_element(kernels: Any) -> None:
    assert kernels("unwritten_local", checked=4, argument=1).fault == "none"
    found = kernels("unwritten_local", checked=4, argument=2)
    assert (found.fault, found.site) == ("unwritten", 5)
    assert "x[2]" in found.text


def test_what_an_operation_under_way_writes_is_not_to_be_used(kernels: Any) -> None:
    assert kernels("local_under_way", checked=4, argument=1).fault == "none"
    for argument, verb in ((2, "reads"), (3, "writes")):
        found = kernels("local_under_way", checked=4, argument=argument)
        assert (found.fault, found.site) == ("unwritten", 5)
        assert f"{verb} x[0], which an operation under way writes: it is not waited for" in found.text


def test_bounds_are_checked_axis_by_axis(kernels: Any) -> None:
    found = kernels("second_axis", block=(32, 1, 1), checked=4)
    assert (found.fault, found.site) == ("bounds", 1)
    assert "thread (3, 0, 0) of block (0, 0, 0) writes S[0, 4], outside of its extents (8, 4)" in found.text


def test_vectors_must_be_aligned(kernels: Any) -> None:
    found = kernels("misaligned", checked=4)
    assert found.fault == "alignment"
    assert "S[2:6] as one vector of 16 bytes" in found.text


def test_a_barrier_that_some_threads_miss(kernels: Any) -> None:
    found = kernels("divergent_barrier", checked=4)
    assert (found.fault, found.site) == ("barrier", 3)
    assert "threads 0 to 31 wait for a barrier (k.py:4)" in found.text
    assert "has ended" in found.text or "have ended" in found.text


def test_threads_at_different_barriers(kernels: Any) -> None:
    found = kernels("divergent_barrier", checked=4, argument=1)
    assert found.fault == "barrier"
    assert "at different barriers" in found.text
    assert "k.py:4" in found.text
    assert "k.py:5" in found.text


def test_without_checks_a_barrier_waits_for_the_threads_there_are(kernels: Any) -> None:
    assert kernels("divergent_barrier").fault == "none"


@pytest.mark.parametrize("distance", [1, 16, 31])
def test_lanes_that_met_are_ordered(kernels: Any, distance: int) -> None:
    assert kernels("warps_apart", checked=4, argument=distance).fault == "none"


def test_lanes_of_other_warps_are_not(kernels: Any) -> None:
    found = kernels("warps_apart", checked=4, argument=32)
    assert found.fault in ("race", "unwritten")


def test_order_passes_through_a_thread_between(kernels: Any) -> None:
    found = kernels("chain", block=(96, 1, 1), checked=4, argument=1)
    assert found.fault == "none"
    assert found.out[64:96].tolist() == [1] * 32


def test_ordered_updates_order_the_blocks_of_a_launch(kernels: Any) -> None:
    found = kernels("last_block_sums", grid=(7, 1, 1), block=(32, 1, 1), checked=4, argument=1)
    assert found.fault == "none"
    assert found.out[63] == 35
    unordered = kernels("last_block_sums", grid=(7, 1, 1), block=(32, 1, 1), checked=4)
    assert unordered.fault == "race"
    assert "reads A[1], which a thread of another block wrote" in unordered.text


def test_ordered_updates_order_threads(kernels: Any) -> None:
    found = kernels("published_within_a_block", checked=4, argument=1)
    assert (found.fault, found.out[0]) == ("none", 9)
    unordered = kernels("published_within_a_block", checked=4)
    assert unordered.fault == "race"
    assert "reads S[5], which thread (0, 0, 0) wrote" in unordered.text
