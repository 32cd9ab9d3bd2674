"""Workspaces on a GPU: memory in the order of the caller's stream, kept by a graph, given back after every call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cuda.target import detect

_found = detect()
pytestmark = [pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason)]

ROOM = 1 << 21
TURNS = 8


@T.prim_func
def slow_sums(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    """Every block copies A to its part of a workspace; then one warp walks over all of it, for many milliseconds."""
    copies = T.alloc_global((ROOM // 32, 32), "int32")
    with T.Kernel(ROOM // 32, threads=32) as bx:
        for i in T.Parallel(32):
            copies[bx, i] = A[i]
    with T.Kernel(1, threads=32):
        total = T.alloc_fragment((32,), "int32")
        T.clear(total)
        for _turn, row in T.grid(TURNS, ROOM // 32):
            for i in T.Parallel(32):
                total[i] += copies[row, i]
        T.copy(total, B)


@pytest.fixture(scope="module")
def kernel() -> Any:
    compiled = tl.compile(slow_sums, target="cuda")
    compiled(*(torch.zeros(32, dtype=torch.int32, device="cuda") for _ in "AB"))
    torch.cuda.synchronize()
    return compiled


def filled(value: int) -> torch.Tensor:
    return torch.full((32,), value, dtype=torch.int32, device="cuda")


def expected(value: int) -> torch.Tensor:
    return filled(value * TURNS * (ROOM // 32))


def test_calls_on_two_streams_do_not_share_a_workspace(kernel: Any) -> None:
    """The second call fills its workspace while the first one still reads its own."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    values = [filled(1), filled(2)]
    results = [filled(-1), filled(-1)]
    for stream in streams:  # torch asks the driver, which waits for the device, for a stream's first memory only
        with torch.cuda.stream(stream):
            kernel(values[0], results[0])
    torch.cuda.synchronize()
    events = []
    for stream, value, result in zip(streams, values, results, strict=True):
        with torch.cuda.stream(stream):
            kernel(value, result)
            events.append(stream.record_event())
    assert not events[0].query(), "the first call had ended before the second began: nothing was shown"
    torch.cuda.synchronize()
    for value, result in zip((1, 2), results, strict=True):
        assert torch.equal(result, expected(value))


def test_calls_one_after_another_on_one_stream_may_share_it(kernel: Any) -> None:
    results = [filled(-1) for _ in range(4)]
    for value, result in enumerate(results):
        kernel(filled(value), result)
    for value, result in enumerate(results):
        assert torch.equal(result, expected(value))


def test_memory_is_given_back_after_every_call(kernel: Any) -> None:
    value, result = filled(3), filled(-1)
    kernel(value, result)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(8):
        kernel(value, result)
        assert torch.cuda.memory_allocated() == held[0]
    assert torch.cuda.memory_reserved() == held[1]
    assert torch.equal(result, expected(3))


def test_memory_that_a_call_gave_back_is_written_after_the_call_read_it(kernel: Any) -> None:
    """A tensor of the same stream gets the workspace's bytes at once, and its fill waits behind the kernel."""
    value, result = filled(5), filled(-1)
    kernel(value, result)
    over = torch.full((ROOM,), 77, dtype=torch.int32, device="cuda")
    assert torch.equal(result, expected(5))
    assert torch.equal(over, torch.full_like(over, 77))


def test_a_graph_keeps_its_workspace(kernel: Any) -> None:
    """What is allocated and filled between replays does not lie in memory that the graph still uses."""
    value, result = filled(1), filled(-1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(value, result)
    for turn in (4, 6):
        value.fill_(turn)
        result.fill_(-1)
        graph.replay()
        others = [torch.full((ROOM,), 99, dtype=torch.int32, device="cuda") for _ in range(4)]
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            more = torch.full((ROOM,), 98, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        assert torch.equal(result, expected(turn))
        assert all(bool((one == 99).all()) for one in others)
        assert bool((more == 98).all())
