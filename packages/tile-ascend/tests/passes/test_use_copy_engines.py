"""Which copies the engines of a core make, and that the results are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

pytestmark = pytest.mark.emulate


def compiled(func: Any, *, checked: bool = True) -> Any:
    return tl.compile(func, target="ascend", execution="emulate", pass_configs={"tile.emulate_check": checked})


@T.prim_func
def columns(A: T.Tensor((64, 256), "float16"), B: T.Tensor((64, 256), "float16")):
    """Boxes of rows that are apart from each other."""
    with T.Kernel(4, 2, threads=32) as (bx, by):
        tile = T.alloc_shared((32, 64), "float16")
        T.copy(A[by * 32, bx * 64], tile)
        for i, j in T.Parallel(32, 64):
            tile[i, j] = tile[i, j] + tile[i, j]
        T.copy(tile, B[by * 32, bx * 64])


@T.prim_func
def accumulate(A: T.Tensor((32, 256), "float32"), B: T.Tensor((32,), "float32")):
    """What a fragment keeps over the iterations keeps the copies with the threads."""
    with T.Kernel(1, threads=32) as _:
        tile, total = T.alloc_shared((32, 64), "float32"), T.alloc_fragment((32,), "float32")
        T.clear(total)
        for step in T.serial(4):
            T.copy(A[0, step * 64], tile)
            T.reduce_sum(tile, total, dim=1, clear=False)
        T.copy(total, B)


@pytest.mark.parametrize("checked", [False, True])
def test_copies_around_what_threads_do_are_made_by_engines(softmax: Any, checked: bool) -> None:
    kernel = compiled(softmax, checked=checked)
    a, b = torch.randn(64, 256), torch.full((64, 256), torch.nan)
    a[3, 5], a[9] = -torch.inf, 1e30
    kernel(a, b)
    torch.testing.assert_close(b, torch.softmax(a, 1))
    assert kernel.report()["engine_copies"] == 2
    source = kernel.get_kernel_source()
    assert source.count("asc_copy_gm2ub_align(") == source.count("asc_copy_ub2gm_align(") == 1


@pytest.mark.parametrize("checked", [False, True])
def test_a_box_has_strides(checked: bool) -> None:
    kernel = compiled(columns, checked=checked)
    a, b = torch.randn(64, 256).half(), torch.full((64, 256), torch.nan).half()
    kernel(a, b)
    assert torch.equal(b, a + a)
    assert ", 32, 128, 0, 0, false, 0, 512, 128);" in kernel.get_kernel_source()


def test_what_threads_keep_over_iterations_keeps_the_copies_with_them() -> None:
    kernel = compiled(accumulate)
    a, b = torch.randn(32, 256), torch.full((32,), torch.nan)
    kernel(a, b)
    torch.testing.assert_close(b, a.sum(1))
    assert kernel.report()["engine_copies"] == 0


def copying(rows: int, columns: int, wide: int, dtype: str = "float32") -> Any:
    """A kernel that brings boxes of `wide` columns through a tile, the last of which may leave the tensor."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(columns, wide), threads=32) as block:
            tile = T.alloc_shared((rows, wide), dtype)
            T.copy(A[0, block * wide], tile)
            T.copy(tile, B[0, block * wide])

    return kernel


@pytest.mark.parametrize(
    ("rows", "columns", "wide", "dtype", "copies"),
    [
        (4, 64, 32, "float32", 2),
        (4, 64, 16, "int8", 0),  # rows of half a block of 32 bytes
        (4, 60, 32, "float32", 0),  # the last box leaves the tensor
        (1, 32, 32, "bool", 2),
        (3, 24, 8, "int64", 2),
    ],
)
def test_engines_take_whole_blocks_inside_of_a_tensor(
    rows: int, columns: int, wide: int, dtype: str, copies: int
) -> None:
    kernel = compiled(copying(rows, columns, wide, dtype))
    a = (torch.randn(rows, columns) * 50).to(getattr(torch, dtype))
    b = torch.full_like(a, 1)
    kernel(a, b)
    assert torch.equal(a, b)
    assert kernel.report()["engine_copies"] == copies


def test_a_tensor_that_threads_write_is_not_read_by_an_engine() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                A[i] = A[i] + 1.0
            T.copy(A, tile)
            for i in T.Parallel(64):
                A[i] = tile[63 - i]

    made = compiled(kernel)
    a = torch.arange(64.0)
    made(a)
    assert torch.equal(a, torch.arange(64.0).flip(0) + 1)
    assert made.report()["engine_copies"] == 0


def test_a_branch_of_the_block_may_hold_copies_and_a_loaded_one_may_not() -> None:
    def kernel(loaded: bool) -> Any:
        @T.prim_func
        def branching(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
            with T.Kernel(4, threads=32) as block:
                tile = T.alloc_shared((64,), "int32")
                if (A[block, 0] > 0) if loaded else (block > 1):
                    T.copy(A[block, 0], tile)
                else:
                    T.fill(tile, 7)
                T.copy(tile, B[block, 0])

        return branching

    a = torch.arange(-128, 128, dtype=torch.int32).reshape(4, 64)
    for loaded, copies in ((False, 2), (True, 1)):
        made, b = compiled(kernel(loaded)), torch.zeros_like(a)
        made(a, b)
        taken = (a[:, :1] > 0) if loaded else torch.arange(4)[:, None] > 1
        assert torch.equal(b, torch.where(taken, a, 7))
        assert made.report()["engine_copies"] == copies


def test_what_threads_ask_of_an_address_is_asked_in_each_function() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                B[i] = 1.0
            T.copy(A, tile)
            for i in T.Parallel(64):
                C[i] = tile[i] * 2.0
                B[i] = B[i] + tile[i]

    made = compiled(kernel)
    a, b, c = torch.randn(64), torch.empty(65)[1:], torch.empty(64)
    made(a, b, c)
    assert torch.equal(c, a * 2)
    assert torch.equal(b, a + 1)
    assert made.report()["engine_copies"] == 1


def test_more_copies_than_the_emulator_keeps() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((150, 16), "int32"), B: T.Tensor((150, 16), "int32")):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((16,), "int32")
            for step in T.serial(150):
                T.copy(A[step, 0], tile)
                T.copy(tile, B[step, 0])

    made = compiled(kernel)
    a, b = torch.arange(2400, dtype=torch.int32).reshape(150, 16), torch.zeros(150, 16, dtype=torch.int32)
    made(a, b)
    assert torch.equal(a, b)
    assert made.report()["engine_copies"] == 2


def test_what_both_ways_of_a_branch_keep_keeps_the_copies_with_the_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=32) as block:
            tile, kept = T.alloc_shared((64,), "int32"), T.alloc_fragment((64,), "int32")
            T.fill(tile, 1)
            if block > 1:
                T.copy(A[block, 0], tile)
                T.copy(tile, kept)
                for i in T.Parallel(64):
                    tile[63 - i] = kept[i] + 1
            else:
                T.fill(kept, 5)
                for i in T.Parallel(64):
                    tile[i] = tile[i] + kept[i]
            T.copy(tile, B[block, 0])

    made = compiled(kernel)
    a, b = torch.arange(256, dtype=torch.int32).reshape(4, 64), torch.zeros(4, 64, dtype=torch.int32)
    made(a, b)
    assert (b[:2] == 6).all()
    assert torch.equal(b[2:], a[2:].flip(1) + 1)
    assert made.report()["engine_copies"] == 0
