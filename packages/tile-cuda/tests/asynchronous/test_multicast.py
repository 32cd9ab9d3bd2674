"""Blocks of a cluster feed each other: one loads for all, and waits until all have given the stage back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors import TileError
from tile_core.errors.emulator import (
    EmulatedCopyError,
    EmulatedDeadlockError,
    EmulatedRaceError,
    EmulatedUnwrittenError,
)
from tile_core.ir.descriptors import named
from tile_core.ir.ops import tile_op
from tile_core.testing import handmade as h
from tile_cuda.instructions.calls import address
from tile_cuda.instructions.mbarrier import (
    fence_async,
    fence_barrier_init,
    mbarrier_announce,
    mbarrier_arrive,
    mbarrier_arrive_remote,
    mbarrier_init,
    mbarrier_wait,
)
from tile_cuda.instructions.tensor_map import tensor_map
from tile_cuda.instructions.tma import tma_load_multicast

ROWS, COLUMNS, CLUSTER, STEPS = 32, 32, 2, 5
HALF = ROWS // CLUSTER
BYTES = ROWS * COLUMNS * 4


def shared_loads(mistake: str = "") -> Any:
    """B[block] = the sum of the tiles of A: each block loads a half of every tile for both."""
    a = tirx.decl_buffer((ROWS, STEPS * COLUMNS), "float32", "A", scope="global")
    b = tirx.decl_buffer((CLUSTER, ROWS, COLUMNS), "float32", "B", scope="global")
    tile = h.shared_buffer("tile", (ROWS, COLUMNS), "float32")
    full, empty = h.shared_buffer("full", (1,), "uint64"), h.shared_buffer("empty", (1,), "uint64")
    described = named("A_map")
    made = tensor_map(
        address(a, 0, 0), [STEPS * COLUMNS, ROWS], [4 * STEPS * COLUMNS], dtype="float32", box=[COLUMNS, HALF]
    )
    sums = tirx.decl_buffer((ROWS,), "float32", "sums", scope="local")

    def sync() -> ir.Expr:
        return ir.Call(tile_op("tile.thread.cluster_sync"), [], ret_ty="void")

    def body(block: Any, thread: Any) -> list[Any]:
        first, rank = E.EQ(thread, h.int32(0)), E.FloorMod(block, h.int32(CLUSTER))
        filled, free = address(full, 0), address(empty, 0)
        blocks = 1 if mistake == "too few are asked" else CLUSTER
        everyone = [mbarrier_arrive_remote(free, other) for other in range(blocks)]

        def step(k: Any) -> list[Any]:
            parity = E.FloorMod(k, h.int32(2))
            load = tma_load_multicast(
                address(tile, rank * h.int32(HALF), 0), described, filled, 3, k * h.int32(COLUMNS), rank * h.int32(HALF)
            )
            wait_for_free = [] if mistake == "no wait for all" else [mbarrier_wait(free, h.int32(1) - parity)]
            wait = [] if mistake == "no wait" else [mbarrier_wait(filled, parity)]
            add = [h.store(sums, h.load(sums, row) + h.load(tile, row, thread), row) for row in range(ROWS)]
            return [
                h.when(first, *wait_for_free, mbarrier_announce(filled, BYTES), mbarrier_arrive(filled), load),
                *wait,
                *add,
                fence_async(),
                h.barrier(),
                h.when(first, *everyone),
            ]

        return [
            h.when(first, mbarrier_init(filled, 1), mbarrier_init(free, CLUSTER), fence_barrier_init()),
            sync(),
            S.AllocBuffer(sums),
            h.loop(ROWS, lambda i: [h.store(sums, E.FloatImm("float32", 0.0), i)]),
            h.loop(STEPS, step, "k"),
            h.loop(ROWS, lambda i: [h.store(b, h.load(sums, i), rank, i, thread)]),
            sync(),
        ]

    kernel = h.Kernel(body, COLUMNS, CLUSTER, [tile, full, empty], CLUSTER)
    return h.program([a, b], S.Bind(described, made), kernel.launch())


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, and a poisoned output."""
    a = np.random.default_rng(0).integers(-9, 9, (ROWS, STEPS * COLUMNS)).astype("float32")
    return a, np.full((CLUSTER, ROWS, COLUMNS), np.nan, "float32")


def test_a_load_reaches_every_block(run: Any) -> None:
    a, b = operands()
    run(shared_loads(), a, b)
    assert (b == a.reshape(ROWS, STEPS, COLUMNS).sum(1)).all()


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        ("no wait", (EmulatedRaceError, EmulatedUnwrittenError), r"reads tile\["),
        ("too few are asked", EmulatedDeadlockError, r"of empty\[0\].* misses \d of 2 arrivals"),
    ],
)
def test_mistakes_are_found(emulate: Any, mistake: str, kind: type[TileError], message: str) -> None:
    a, b = operands()
    with pytest.raises(kind, match=message):
        emulate(shared_loads(mistake), a, b)


@pytest.mark.emulate
def test_a_stage_of_a_peer_is_not_overwritten_unnoticed(emulate: Any) -> None:
    a, b = operands()
    try:
        emulate(shared_loads("no wait for all"), a, b)
    except (EmulatedRaceError, EmulatedCopyError):
        return
    assert (b != a.reshape(ROWS, STEPS, COLUMNS).sum(1)).any()


@pytest.mark.compile
def test_multicast_compiles(source_for: Any) -> None:
    source = source_for(shared_loads())
    for word in ("multicast::cluster", "mapa.shared::cluster", "mbarrier.arrive.shared::cluster"):
        assert word in source
