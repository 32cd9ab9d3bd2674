"""Launches on the CPU: which blocks run, with which indices, and in which order."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import UnsupportedOnTargetError
from tile_core.ir import launch
from tile_cpu.passes.block_work import PER_CALL, block_work


@pytest.mark.parametrize("grid", [(1,), (7,), (3, 5), (2, 3, 4), (1, 1, 6)])
def test_every_block_runs_once_x_fastest(grid: tuple[int, ...]) -> None:
    gx, gy, gz = (*grid, 1, 1)[:3]
    total = gx * gy * gz

    @T.prim_func
    def kernel(Out: T.Tensor((total, 4), "int32")):
        with T.Kernel(gx, gy, gz) as (bx, by, bz):
            flat = (bz * gy + by) * gx + bx
            Out[flat, 0] = bx
            Out[flat, 1] = by
            Out[flat, 2] = bz
            Out[flat, 3] = Out[flat, 3] + 1

    out = torch.zeros(total, 4, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(out)
    expected = [[p % gx, p // gx % gy, p // (gx * gy), 1] for p in range(total)]
    assert out.tolist() == expected


def test_launches_of_one_function_run_in_order() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4096,), "int32")):
        with T.Kernel(64) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = bx * 64 + i
        with T.Kernel(64) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = A[bx * 64 + i] * 2 + A[4095 - 0] * 0

    a = torch.zeros(4096, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(a)
    assert torch.equal(a, 2 * torch.arange(4096, dtype=torch.int32))


@pytest.mark.parametrize("extents", [(0,), (4, 0), (0, 4), (3, 0, 2)])
def test_an_extent_of_0_launches_nothing(extents: tuple[int, ...]) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32")):
        with T.Kernel(*extents):
            A[0] = 7

    a = torch.ones(1, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(a)
    assert a.item() == 1


def test_a_negative_extent_launches_nothing() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(n - 5, n - 5):
            B[0] = 7

    b = torch.ones(1, dtype=torch.int32)
    run = tl.compile(kernel, target="cpu")
    run(torch.zeros(3, dtype=torch.int32), b)
    assert b.item() == 1
    run(torch.zeros(6, dtype=torch.int32), b)
    assert b.item() == 7


def test_a_launch_in_a_host_loop_and_branch() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), count: T.int32):
        for step in T.serial(count):
            if step % 2 == 0:
                with T.Kernel(4) as bx:
                    for i in T.Parallel(16):
                        A[bx * 16 + i] = A[bx * 16 + i] + step + 1

    a = torch.zeros(64, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(a, 5)
    assert a.tolist() == [1 + 3 + 5] * 64


def test_a_prelude_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, prelude="#define X 1"):
            A[0] = 1

    with pytest.raises(UnsupportedOnTargetError, match="prelude"):
        tl.compile(kernel, target="cpu")


def test_the_work_of_a_block() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.serial(10):
                A[i] = 1.0
                if i > 5:
                    A[i] = T.exp(A[i])
                else:
                    A[i] = 2.0
        with T.Kernel(1):
            for i in T.serial(n):
                B[i] = 1.0

    first, second = (launch.from_stmt(nest).body for nest in launch.launches(kernel.body))
    assert block_work(first) == 10 * (1 + 1 + PER_CALL)
    assert block_work(second) is None
