"""Copies of a thread: widths, zeros, groups over several stages, barriers that count them, and mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors import TileError
from tile_core.errors.emulator import (
    EmulatedCopyError,
    EmulatedDeadlockError,
    EmulatedRaceError,
    EmulatedUnwrittenError,
)
from tile_core.testing import handmade as h
from tile_cuda.instructions.calls import address
from tile_cuda.instructions.cp_async import cp_async, cp_async_barrier, cp_async_commit, cp_async_wait
from tile_cuda.instructions.mbarrier import mbarrier_init, mbarrier_wait

THREADS = 64


def widths(width: int, kept: int, first: int = 0) -> Any:
    """Thread t copies the first `kept` bytes of its `width` from A and writes what is in shared memory then to B."""
    size = THREADS * width
    a = tirx.decl_buffer((size + 16,), "uint8", "A", scope="global")
    b = tirx.decl_buffer((size,), "uint8", "B", scope="global")
    tile = h.shared_buffer("tile", (size,), "uint8")

    def body(_block: Any, thread: Any) -> list[Any]:
        start = thread * h.int32(width)

        def out(i: Any) -> list[Any]:
            return [h.store(b, h.load(tile, start + i), start + i)]

        source = address(a, start + h.int32(first))
        copy = cp_async(address(tile, start), source, kept, width=width)
        return [copy, cp_async_commit(), cp_async_wait(0), h.loop(width, out)]

    return h.program([a, b], h.Kernel(body, THREADS, shared=[tile]).launch())


def aligned(size: int) -> np.ndarray:
    """Bytes that begin at a multiple of 16."""
    room = np.empty(size + 16, "uint8")
    begin = -room.ctypes.data % 16
    found = room[begin : begin + size]
    found[...] = np.arange(size) % 249 + 1
    return found


@pytest.mark.parametrize(("width", "kept"), [(4, 4), (8, 8), (16, 16), (16, 0), (16, 6), (8, 3), (4, 1)])
def test_what_is_not_copied_is_zero(run: Any, width: int, kept: int) -> None:
    a, b = aligned(THREADS * width + 16), np.full(THREADS * width, 0xA5, "uint8")
    run(widths(width, kept), a, b)
    expected = a[: THREADS * width].reshape(THREADS, width).copy()
    expected[:, kept:] = 0
    assert (b.reshape(THREADS, width) == expected).all()


@pytest.mark.emulate
@pytest.mark.parametrize("first", [1, 4, 8])
def test_addresses_are_multiples_of_the_width(emulate: Any, first: int) -> None:
    with pytest.raises(EmulatedCopyError, match=r"copies at tile\[0\], from or to an address that is no multiple"):
        emulate(widths(16, 16, first), aligned(THREADS * 16 + 16), np.zeros(THREADS * 16, "uint8"))


def test_a_copy_has_a_width_of_the_hardware() -> None:
    with pytest.raises(ValueError, match="4, 8 or 16 bytes, not 2"):
        widths(2, 2)


def stages(steps: int, count: int, mistake: str = "") -> Any:
    """B = the sum over steps of tiles of A, mirrored: a thread uses what another one copied, `count` stages deep."""
    a = tirx.decl_buffer((steps, THREADS), "float32", "A", scope="global")
    b = tirx.decl_buffer((THREADS,), "float32", "B", scope="global")
    tiles = h.shared_buffer("tiles", (count, THREADS), "float32")
    total = tirx.decl_buffer((1,), "float32", "total", scope="local.var")

    def body(_block: Any, thread: Any) -> list[Any]:
        def copy(step: Any) -> S.Stmt:
            stage = E.FloorMod(step, h.int32(count))
            inside = E.LT(step, h.int32(steps))
            moved = cp_async(address(tiles, stage, thread), address(a, step, thread), 4, width=4)
            return h.do(h.when(inside, moved), *([] if mistake == "no commit" else [cp_async_commit()]))

        def use(step: Any) -> list[Any]:
            stage = E.FloorMod(step, h.int32(count))
            pending = count - 1 if mistake == "one too few" else count - 2
            mirrored = h.load(tiles, stage, h.int32(THREADS - 1) - thread)
            return [
                *([] if mistake == "no wait" else [cp_async_wait(pending)]),
                *([] if mistake == "no barrier" else [h.barrier()]),
                *([copy(step + h.int32(count - 1))] if mistake != "too early" else []),
                *([copy(step + h.int32(count))] if mistake == "too early" else []),
                h.store(total, h.load(total, 0) + mirrored, 0),
            ]

        return [
            S.AllocBuffer(total),
            h.store(total, E.FloatImm("float32", 0.0), 0),
            h.loop(count if mistake == "too early" else count - 1, lambda step: [copy(step)]),
            h.loop(steps, use, "k"),
            h.store(b, h.load(total, 0), thread),
        ]

    return h.program([a, b], h.Kernel(body, THREADS, shared=[tiles]).launch())


@pytest.mark.parametrize(("steps", "count"), [(1, 2), (5, 2), (13, 3), (12, 5)])
def test_groups_over_stages(run: Any, steps: int, count: int) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (steps, THREADS)).astype("float32")
    b = np.full(THREADS, np.nan, "float32")
    run(stages(steps, count), a, b)
    assert (b == a.sum(0)[::-1]).all()


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        ("no wait", EmulatedRaceError, r"reads tiles\[0, .*which a copy wrote .*it is not waited for"),
        ("one too few", EmulatedRaceError, r"reads tiles\[.*which a copy wrote .*it is not waited for"),
        ("no commit", EmulatedRaceError, r"reads tiles\[.*which a copy wrote .*it is not waited for"),
        ("too early", EmulatedRaceError, r"a copy of thread .* writes tiles\["),
        ("no barrier", (EmulatedRaceError, EmulatedUnwrittenError), r"reads tiles\[0"),
    ],
)
def test_mistakes_are_found(emulate: Any, mistake: str, kind: type[TileError], message: str) -> None:
    a, b = np.ones((7, THREADS), "float32"), np.zeros(THREADS, "float32")
    with pytest.raises(kind, match=message) as raised:
        emulate(stages(7, 3, mistake), a, b)
    assert raised.value.span is not None
    assert raised.value.span.file == __file__


def counted(arrivals: int, *, wait: bool = True) -> Any:
    """B = A mirrored: all wait for a barrier at which every thread's copies arrive."""
    a = tirx.decl_buffer((THREADS,), "float32", "A", scope="global")
    b = tirx.decl_buffer((THREADS,), "float32", "B", scope="global")
    tile, full = h.shared_buffer("tile", (THREADS,), "float32"), h.shared_buffer("full", (1,), "uint64")

    def body(_block: Any, thread: Any) -> list[Any]:
        return [
            h.when(E.EQ(thread, h.int32(0)), mbarrier_init(address(full, 0), arrivals)),
            h.barrier(),
            cp_async(address(tile, thread), address(a, thread), 4, width=4),
            cp_async_barrier(address(full, 0)),
            *([mbarrier_wait(address(full, 0), 0)] if wait else [h.barrier()]),
            h.store(b, h.load(tile, h.int32(THREADS - 1) - thread), thread),
        ]

    return h.program([a, b], h.Kernel(body, THREADS, shared=[tile, full]).launch())


def test_a_barrier_counts_copies(run: Any) -> None:
    a, b = np.arange(THREADS, dtype="float32"), np.full(THREADS, np.nan, "float32")
    run(counted(THREADS), a, b)
    assert (b == a[::-1]).all()


@pytest.mark.emulate
def test_a_barrier_that_counts_copies_is_waited_for(emulate: Any) -> None:
    a, b = np.arange(THREADS, dtype="float32"), np.full(THREADS, np.nan, "float32")
    with pytest.raises(EmulatedRaceError, match=r"reads tile\[.*which a copy wrote"):
        emulate(counted(THREADS, wait=False), a, b)
    with pytest.raises(EmulatedDeadlockError, match=r"parity 0 of full\[0\].* misses 1 of 65 arrivals"):
        emulate(counted(THREADS + 1), a, b)


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_copies_compile(source_for: Any, arch: str) -> None:
    assert "cp.async.cg.shared.global" in source_for(widths(16, 6), arch)
    assert "cp.async.ca.shared.global" in source_for(stages(13, 3), arch)
    assert "cp.async.mbarrier.arrive.noinc" in source_for(counted(THREADS), arch)
