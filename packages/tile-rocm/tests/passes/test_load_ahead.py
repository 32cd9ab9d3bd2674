"""Copies of pipelined loops one iteration ahead: the same numbers as in order, and which copies stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T

CHECKED = {"tile.emulate_check": True}
TARGET = {"kind": "rocm", "arch": "gfx942"}


def run(func: Any, *cases: tuple[Any, ...], ahead: list[str], **configs: Any) -> None:
    """Interpreted and emulated alike for all arguments; `ahead`: the tiles that are loaded ahead, loop by loop."""
    reference = tl.compile(func, target="interpret")
    kernel = tl.compile(func, target=TARGET, execution="emulate", pass_configs={**CHECKED, **configs})
    for arrays in cases:
        left, right = ([np.copy(one) if isinstance(one, np.ndarray) else one for one in arrays] for _ in "12")
        reference(*left)
        kernel(*right)
        for one, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(one, other)
    assert [line.partition(": ")[2] for line in kernel.artifact.report["loaded_ahead"]] == ahead
    assert not kernel.artifact.report["fragments_in_shared"]


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(5).integers(-9, 10, shape).astype(dtype)


ROWS = (numbers(9, 47), np.zeros((9, 16), np.float32), 0, 3)


def sums(stages: int, tile_dtype: str = "float32") -> Any:
    """Rows weighted by their turn, from a first turn on, and what the tile holds behind the loop."""
    m, k = T.dynamic("m"), T.dynamic("k")

    @T.prim_func
    def kernel(A: T.Tensor((m, k), "float32"), C: T.Tensor((m, 16), "float32"), first: T.int32, last: T.int32):
        with T.Kernel(T.ceildiv(m, 8), threads=64) as block:
            tile = T.alloc_shared((8, 16), tile_dtype)
            total = T.alloc_fragment((8, 16), "float32")
            T.clear(total)
            T.clear(tile)
            for step in T.Pipelined(first, last, num_stages=stages):
                column = step * 16
                T.copy(A[block * 8, column], tile)
                for i, j in T.Parallel(8, 16):
                    total[i, j] = total[i, j] * 0.5 + T.cast(tile[i, j], "float32")
            for i, j in T.Parallel(8, 16):
                total[i, j] += T.cast(tile[i, j], "float32") * 64.0
            T.copy(total, C[block * 8, 0])

    return kernel


@pytest.mark.emulate
def test_any_number_of_iterations() -> None:
    turns = [(0, 0), (0, 1), (0, 4), (1, 3), (2, 2), (3, 1), (-1, 2), (2, 9)]
    cases = [(numbers(13, 60), np.full((13, 16), 7, np.float32), first, last) for first, last in turns]
    run(sums(2), *cases, ahead=["tile"])


@pytest.mark.emulate
def test_a_tile_of_another_dtype_is_converted_when_it_is_stored() -> None:
    run(sums(3, "float16"), ROWS, ahead=["tile"])


@pytest.mark.emulate
@pytest.mark.parametrize("stages", [0, 1])
def test_fewer_than_two_stages_stay_in_order(stages: int) -> None:
    run(sums(stages), ROWS, ahead=[])


@pytest.mark.emulate
def test_the_option() -> None:
    run(sums(2), ROWS, ahead=[], **{"tile.load_ahead": False})


@T.prim_func
def several(
    A: T.Tensor((64, 64), "float32"),
    B: T.Tensor((64, 64), "float32"),
    W: T.Tensor((4,), "int32"),
    C: T.Tensor((64, 64), "float32"),
):
    """Loops within a loop; a tensor that changes; rows that a table names; a copy behind work."""
    with T.Kernel(1, threads=64) as _:
        a = T.alloc_shared((16, 64), "float32")
        b = T.alloc_shared((16, 64), "float32")
        c = T.alloc_shared((16, 64), "float32")
        d = T.alloc_shared((16, 64), "float32")
        total = T.alloc_fragment((16, 64), "float32")
        T.clear(total)
        for turn in range(2):
            for step in T.Pipelined(4, num_stages=2):
                T.copy(A[step * 16, 0], a)
                for i, j in T.Parallel(16, 64):
                    total[i, j] += a[i, j] * (turn + 1)
                T.copy(B[(3 - step) * 16, 0], b)
                T.copy(B[W[step] * 16, 0], c)
                T.copy(C[step * 16, 0], d)
                for i, j in T.Parallel(16, 64):
                    total[i, j] += b[i, j] - c[i, j] * 2.0 + d[i, j]
                for i, j in T.Parallel(16, 64):
                    C[(step + 1) % 4 * 16 + i, j] = total[i, j]


@pytest.mark.emulate
def test_only_tensors_that_stay_as_they_are_are_read_early() -> None:
    table = np.array([2, 0, 3, 1], np.int32)
    run(several, (numbers(64, 64), numbers(64, 64), table, numbers(64, 64)), ahead=["a, b"])


@T.prim_func
def large(A: T.Tensor((4, 136, 128), "float32"), C: T.Tensor((136, 128), "float32")):
    with T.Kernel(1, threads=64) as _:
        tile = T.alloc_shared((68, 128), "float32")
        for step in T.Pipelined(4, num_stages=2):
            for part in range(2):
                T.copy(A[step, part * 68, 0], tile)
                for i, j in T.Parallel(68, 128):
                    C[part * 68 + i, j] += tile[i, j]
            T.copy(A[step, 0:68, 0:128], tile)
            for i, j in T.Parallel(68, 128):
                C[i, j] += tile[i, j]


@pytest.mark.emulate
def test_copies_of_inner_loops_and_those_that_no_registers_are_left_for_stay() -> None:
    run(large, (numbers(4, 136, 128), np.zeros((136, 128), np.float32)), ahead=[])
