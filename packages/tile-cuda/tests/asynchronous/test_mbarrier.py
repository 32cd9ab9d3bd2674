"""A producer and consumers over a ring of stages: right over many phases, and every mistake is found with its place."""

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
    EmulatedFenceError,
    EmulatedRaceError,
    EmulatedUnwrittenError,
)
from tile_core.ir.descriptors import named
from tile_core.testing import handmade as h
from tile_cuda.instructions.calls import address
from tile_cuda.instructions.mbarrier import (
    fence_async,
    fence_barrier_init,
    mbarrier_arrive,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
)
from tile_cuda.instructions.tensor_map import tensor_map
from tile_cuda.instructions.threads import barrier_sync, elect, set_max_registers
from tile_cuda.instructions.tma import tma_load, tma_store, tma_store_commit, tma_store_wait

ROWS, COLUMNS = 16, 32
BYTES = ROWS * COLUMNS * 4
CONSUMERS = 128
Plan = frozenset[str]


def ring(steps: int, stages: int, mistakes: Plan = frozenset()) -> Any:
    """B = the sum of `steps` tiles of A: warpgroup 0 loads, warpgroup 1 adds up and stores through the engine."""
    a = tirx.decl_buffer((ROWS, steps * COLUMNS), "float32", "A", scope="global")
    b = tirx.decl_buffer((ROWS, COLUMNS), "float32", "B", scope="global")
    tiles = h.shared_buffer("tiles", (stages, ROWS, COLUMNS), "float32")
    full, empty = h.shared_buffer("full", (stages,), "uint64"), h.shared_buffer("empty", (stages,), "uint64")
    out = h.shared_buffer("out", (ROWS, COLUMNS), "float32")
    a_map, b_map = named("A_map"), named("B_map")
    maps = [
        S.Bind(var, tensor_map(address(buffer, 0, 0), [width, ROWS], [4 * width], dtype="float32", box=[COLUMNS, ROWS]))
        for var, buffer, width in ((a_map, a, steps * COLUMNS), (b_map, b, COLUMNS))
    ]

    def skip(mistake: str, *calls: Any) -> list[Any]:
        return [] if mistake in mistakes else list(calls)

    def at(step: Any) -> tuple[Any, Any]:
        return E.FloorMod(step, h.int32(stages)), E.FloorMod(E.FloorDiv(step, h.int32(stages)), h.int32(2))

    def setup(stage: Any) -> list[Any]:
        arrivals = CONSUMERS + 1 if "more arrivals" in mistakes else CONSUMERS
        return [mbarrier_init(address(full, stage), 1), mbarrier_init(address(empty, stage), arrivals)]

    def produce(step: Any) -> list[Any]:
        stage, parity = at(step)
        expected = BYTES + 128 * (("more bytes" in mistakes) - ("fewer bytes" in mistakes))
        return [
            *skip("no wait for free stages", mbarrier_wait(address(empty, stage), h.int32(1) - parity)),
            mbarrier_expect(address(full, stage), expected),
            tma_load(address(tiles, stage, 0, 0), a_map, address(full, stage), step * h.int32(COLUMNS), 0),
        ]

    def body(_block: Any, thread: Any) -> list[Any]:
        lane = thread - h.int32(CONSUMERS)
        row, column = E.FloorDiv(lane, h.int32(COLUMNS)), E.FloorMod(lane, h.int32(COLUMNS))
        sums = tirx.decl_buffer((4,), "float32", "sums", scope="local")
        zero = E.FloatImm("float32", 0.0)

        def consume(step: Any) -> list[Any]:
            stage, parity = at(step)
            early, late = ("early" in mistakes), ("early" not in mistakes)
            free = h.do(*skip("no fence for the tiles", fence_async()), mbarrier_arrive(address(empty, stage)))
            wrong = h.int32(1) - parity if "wrong parity" in mistakes else parity
            wait = h.do(mbarrier_wait(address(full, stage), wrong))
            if "no wait for the second tile" in mistakes:
                wait = h.when(E.NE(step, h.int32(1)), wait)
            return [
                *skip("no wait for tiles", wait),
                *([free] if early else []),
                h.loop(4, lambda i: [h.store(sums, h.load(sums, i) + tile(stage, i), i)], "i"),
                *([free] if late and "no free" not in mistakes else []),
                *([free] if "free twice" in mistakes else []),
            ]

        def tile(stage: Any, i: Any) -> Any:
            return h.load(tiles, stage, i * h.int32(4) + row, column)

        first = E.EQ(thread, h.int32(0))
        return [
            h.when(first, h.loop(stages, setup, "s"), *skip("no fence for barriers", fence_barrier_init())),
            *skip("no barrier", h.barrier()),
            S.IfThenElse(
                E.LT(thread, h.int32(CONSUMERS)),
                h.do(
                    set_max_registers(40, increase=False),
                    h.when(E.LT(thread, h.int32(32)), h.when(elect(), h.loop(steps, produce, "k"))),
                ),
                h.do(
                    set_max_registers(232, increase=True),
                    S.AllocBuffer(sums),
                    h.loop(4, lambda i: [h.store(sums, zero, i)]),
                    h.loop(steps, consume, "k"),
                    h.loop(4, lambda i: [h.store(out, h.load(sums, i), i * h.int32(4) + row, column)]),
                    *skip("no fence for the store", fence_async()),
                    *skip("no barrier for the store", barrier_sync(1, CONSUMERS)),
                    h.when(
                        E.EQ(lane, h.int32(0)),
                        tma_store(b_map, address(out, 0, 0), 0, 0),
                        *skip("no commit", tma_store_commit()),
                        *skip("no wait for the store", tma_store_wait(0, read=True)),
                    ),
                ),
            ),
        ]

    shared = [tiles, out, full, empty]
    return h.program([a, b], *maps, h.Kernel(body, 2 * CONSUMERS, shared=shared).launch())


def operands(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, and a poisoned output."""
    a = np.random.default_rng(steps).integers(-9, 9, (ROWS, steps * COLUMNS)).astype("float32")
    return a, np.full((ROWS, COLUMNS), np.nan, "float32")


@pytest.mark.parametrize(("steps", "stages"), [(1, 1), (7, 1), (9, 2), (4, 4), (23, 3), (40, 5)])
def test_stages_are_used_again_and_again(run: Any, steps: int, stages: int) -> None:
    a, b = operands(steps)
    run(ring(steps, stages), a, b)
    assert (b == a.reshape(ROWS, steps, COLUMNS).sum(1)).all()


MISTAKES: dict[str, tuple[type[TileError], str]] = {
    "no wait for tiles": (EmulatedUnwrittenError, r"reads tiles\[0, .*which nothing has written"),
    "no wait for the second tile": (EmulatedRaceError, r"reads tiles\[1, .*which a copy wrote.*it is not waited for"),
    "no wait for free stages": (EmulatedRaceError, r"a copy of thread \(0, 0, 0\).* writes tiles\["),
    "early": (EmulatedRaceError, r"a copy of thread \(0, 0, 0\).* writes tiles\["),
    "wrong parity": (EmulatedUnwrittenError, r"reads tiles\[0, .*which nothing has written"),
    "more bytes": (EmulatedDeadlockError, r"the phase of parity 0 of full\[0\].* misses 0 of 1 arrivals and 128 bytes"),
    "fewer bytes": (EmulatedCopyError, r"full\[0\], whose phase gets 128 bytes more than it expects"),
    "more arrivals": (EmulatedDeadlockError, r"the phase of parity 0 of empty\[0\].* misses 1 of 129 arrivals"),
    "no free": (EmulatedDeadlockError, r"threads? 0 waits? for the phase of parity 0 of empty\[0\]"),
    "free twice": (
        EmulatedDeadlockError,
        r"thread 0 waits for the phase of parity 0 of empty\[0\], which is in phase 2",
    ),
    "no fence for barriers": (EmulatedCopyError, r"full\[0\], which copies do not know: no fence"),
    "no fence for the tiles": (
        EmulatedFenceError,
        r"a copy of .* writes tiles\[0, 0, 0\], which thread .* reads .* no fence",
    ),
    "no barrier": (EmulatedCopyError, r"which is no initialised barrier|whose initialisation by another thread"),
    "no fence for the store": (EmulatedFenceError, r"reads out\[0, 0\], which thread .* no fence"),
    "no barrier for the store": (EmulatedUnwrittenError, r"a copy of thread \(128, 0, 0\).* reads out\[0, 0\]"),
    "no commit": (EmulatedCopyError, r"ends while a copy of thread 128 reads out\[0, 0\]"),
    "no wait for the store": (EmulatedCopyError, r"ends while a copy of thread 128 reads out\[0, 0\]"),
}


@pytest.mark.emulate
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found_with_their_place(emulate: Any, mistake: str) -> None:
    kind, message = MISTAKES[mistake]
    a, b = operands(9)
    with pytest.raises(kind, match=message) as raised:
        emulate(ring(9, 2, frozenset({mistake})), a, b)
    assert raised.value.span is not None
    assert raised.value.span.file == __file__


@pytest.mark.emulate
@pytest.mark.parametrize("mistake", ["no wait for tiles", "wrong parity", "no wait for free stages"])
def test_mistakes_give_wrong_numbers_without_checks(emulate: Any, mistake: str) -> None:
    a, b = operands(9)
    try:
        emulate(ring(9, 2, frozenset({mistake})), a, b, check=False)
    except TileError:
        return
    assert (b != a.reshape(ROWS, 9, COLUMNS).sum(1)).any()


@pytest.mark.compile
def test_roles_compile(source_for: Any) -> None:
    source = source_for(ring(23, 3))
    for word in ("setmaxnreg.inc", "setmaxnreg.dec", "elect.sync", "bar.sync", "mbarrier.try_wait.parity"):
        assert word in source
