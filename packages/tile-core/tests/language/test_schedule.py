"""Tile schedulers and classes that live while tracing."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError
from tile_core.interpreter import Program


@pytest.mark.parametrize("swizzle", [1, 2, 3, 8])
@pytest.mark.parametrize("column_major", [True, False])
@pytest.mark.parametrize(("m", "n", "workers"), [(3, 5, 4), (1, 1, 3), (7, 2, 1), (4, 4, 5)])
def test_every_tile_is_visited_once(m: int, n: int, workers: int, column_major: bool, swizzle: int) -> None:
    @T.prim_func
    def kernel(Seen: T.Tensor((m, n), "int32"), Rounds: T.Tensor((workers,), "int32")):
        with T.Kernel(workers) as w:
            tiles = T.PersistentTileScheduler(m, n, workers, swizzle_size=swizzle, column_major=column_major)
            tiles.init(w)
            while tiles.valid():
                Seen[tiles.m_idx, tiles.n_idx] += 1
                tiles.next_tile()
            Rounds[w] = tiles.current_iter

    seen, rounds = torch.zeros(m, n, dtype=torch.int32), torch.zeros(workers, dtype=torch.int32)
    Program(kernel)(seen, rounds)
    assert (seen == 1).all()
    assert rounds.sum() == m * n


def test_the_order_of_a_panel() -> None:
    tiles = T.PersistentTileScheduler(2, 5, swizzle_size=2, stateful=False)
    order = [tiles.coord(T.int32(position)) for position in range(10)]
    found = [(int(str(m)), int(str(n))) for m, n in order]
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4)]


def test_a_subclass_decodes_its_own_order() -> None:
    class Reversed(T.BaseTileScheduler):
        def __init__(self, total: int) -> None:
            super().__init__()
            self.total = total

        def update_current_idx(self) -> None:
            self.set_tile(self.total - 1 - self.linear_idx, 0)

    @T.prim_func
    def kernel(Out: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            tiles = Reversed(6)
            tiles.init(0)
            while tiles.valid():
                Out[tiles.linear_idx] = tiles.m_idx
                tiles.next_tile(1)

    out = torch.zeros(6, dtype=torch.int32)
    Program(kernel)(out)
    assert out.tolist() == [5, 4, 3, 2, 1, 0]


def test_missing_workers_are_asked_for() -> None:
    with pytest.raises(OpArgumentError, match="num_workers"):

        @T.prim_func
        def kernel(A: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                T.PersistentTileScheduler(2, 2)


@T.meta_class
class Counter:
    def __init__(self, step: int) -> None:
        self.step = step
        self.count = T.alloc_var("int32", 0)
        self.history = T.alloc_local((4,), "int32")

    def advance(self) -> None:
        if self.count < 3:
            self.history[self.count] = self.count * self.step
            self.count = self.count + 1

    def doubled(self):
        return self.count * 2


def test_a_meta_class_keeps_state_in_variables() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((5,), "int32")):
        with T.Kernel(1):
            counter = Counter(10)
            for _ in T.serial(7):
                counter.advance()
            for i in T.serial(3):
                Out[i] = counter.history[i]
            Out[3] = counter.count
            Out[4] = counter.doubled()

    out = torch.zeros(5, dtype=torch.int32)
    Program(kernel)(out)
    assert out.tolist() == [0, 10, 20, 3, 6]


def test_bound_names() -> None:
    facts = []

    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as b:
            twice = A[0] * 2
            facts.append((T.has_let_value(twice), T.has_let_value(b), str(T.get_let_value(twice))))
            A[1] = twice

    assert facts == [(True, False, "A[0] * 2")]
