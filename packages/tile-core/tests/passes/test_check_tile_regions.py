"""Regions that leave their tile in an iteration that is certain to run are refused; others are left to the run."""

from __future__ import annotations

from typing import Any

import pytest

import tile_core.language as T
from tile_core.errors import RegionOutOfRangeError
from tile_core.passes.check_tile_regions import check_tile_regions


def program(body: Any, blocks: Any = 2) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64, 4), "float32"), N: T.Tensor((1,), "int32"), M: T.Tensor((T.dynamic("m"),), "int32")):
        with T.Kernel(M.shape[0] if blocks is None else blocks) as bx:
            tile = T.alloc_shared((8, 4), "float32")
            T.clear(tile)
            body(A, N, tile, bx)

    return kernel


@T.macro
def by_a_loop(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(3):
        T.copy(A[0:4, :], tile[k * 4 : k * 4 + 4, :])


@T.macro
def by_a_name(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.Pipelined(4, num_stages=2):
        row = (3 - k) * 4 - 4
        T.copy(tile[row : row + 4, :], A[0:4, :])


@T.macro
def by_a_block(A: Any, N: Any, tile: Any, bx: Any) -> None:
    T.fill(tile[bx * 5 : bx * 5 + 4, :], 1.0)


@T.macro
def by_two_loops(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for i in T.serial(2):
        for j in T.unroll(1, 3):
            T.copy(A[0:2, :], tile[i * 4 + j * 2 : i * 4 + j * 2 + 2, :])


@T.macro
def stored_by_a_loop(A: Any, N: Any, tile: Any, bx: Any) -> None:
    part = T.alloc_fragment((8, 4), "float32")
    for i, j in T.Parallel(16, 4):
        part[i, j] = 1.0


@T.macro
def read_by_a_loop(A: Any, N: Any, tile: Any, bx: Any) -> None:
    part = T.alloc_fragment((8, 4), "float32")
    for i in T.Parallel(8):
        A[i, 0] = part[i, 0] + part[i - 1, 0]


@T.macro
def read_into_a_name(A: Any, N: Any, tile: Any, bx: Any) -> None:
    part = T.alloc_fragment((8, 4), "float32")
    for i in T.serial(9):
        value = part[i, 0] * 2.0
        A[0, 0] = value


@T.macro
def read_where_it_is_chosen(A: Any, N: Any, tile: Any, bx: Any) -> None:
    part = T.alloc_fragment((8, 4), "float32")
    for i in T.Parallel(16):
        A[i, 0] = T.if_then_else(i < 8, part[i, 0], 0.0)
        A[i, 1] = T.cast(i < 8 and part[i, 0] > 0.0, "float32")
        if i < 8:
            part[i, 1] = 2.0


@T.macro
def under_a_condition(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(3):
        if k < 2:
            T.copy(A[0:4, :], tile[k * 4 : k * 4 + 4, :])


@T.macro
def in_a_loop_that_ends(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(3):
        if N[0] == k:
            break
        T.copy(A[0:4, :], tile[k * 4 : k * 4 + 4, :])


@T.macro
def as_often_as_data_says(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(N[0]):
        T.copy(A[0:4, :], tile[k * 4 : k * 4 + 4, :])
        T.copy(A[0:4, :], tile[N[0] : N[0] + 4, :])


@T.macro
def in_no_iteration(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(0):
        T.copy(A[0:4, :], tile[k + 9 : k + 13, :])


@T.macro
def to_the_end(A: Any, N: Any, tile: Any, bx: Any) -> None:
    for k in T.serial(5):
        T.copy(A[k * 16 : k * 16 + 4, :], tile[k : k + 4, :])


@pytest.mark.parametrize(
    ("body", "region"),
    [
        (by_a_loop, "tile is 8:12 on axis 0, whose extent is 8, at k=2"),
        (by_a_name, "tile is 8:12 on axis 0, whose extent is 8, at k=0"),
        (by_a_block, "tile is 5:9 on axis 0, whose extent is 8, at bx=1"),
        (by_two_loops, "tile is 8:10 on axis 0, whose extent is 8, at i=1, j=2"),
        (stored_by_a_loop, "the fragment part is at 15 on axis 0, whose extent is 8, at i=15"),
        (read_by_a_loop, "the fragment part is at -1 on axis 0, whose extent is 8, at i=0"),
        (read_into_a_name, "the fragment part is at 8 on axis 0, whose extent is 8, at i=8"),
    ],
    ids=str,
)
def test_what_is_certain(body: Any, region: str) -> None:
    with pytest.raises(RegionOutOfRangeError, match=region) as raised:
        check_tile_regions(program(body).body)
    assert raised.value.span is not None


@pytest.mark.parametrize(
    "body",
    [
        under_a_condition,
        read_where_it_is_chosen,
        in_a_loop_that_ends,
        as_often_as_data_says,
        in_no_iteration,
        to_the_end,
    ],
    ids=str,
)
def test_what_is_not(body: Any) -> None:
    check_tile_regions(program(body).body)


def test_a_grid_of_unknown_size() -> None:
    check_tile_regions(program(by_a_block, blocks=None).body)
    with pytest.raises(RegionOutOfRangeError):
        check_tile_regions(program(by_a_loop, blocks=None).body)
