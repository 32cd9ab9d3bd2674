"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_ascend.language as T
import tile_core as tl
import tile_core.language as portable
from tile_core.errors import (
    CodeGenerationUnimplementedError,
    KernelKeywordError,
    KernelNestingError,
    LaunchShapeError,
    OpArgumentError,
)


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="Ascend.*threads"):
        T.Kernel(4, threads=64)


def test_a_grid_has_exactly_one_axis() -> None:
    with pytest.raises(KernelKeywordError, match="1 grid extent"):
        T.Kernel(4, 4)


@pytest.mark.emulate
def test_functions_that_the_author_marks() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 256), "float32"), B: T.Tensor((4, 256), "float32")):
        with T.Kernel(4) as core:
            tile = T.alloc_shared((256,), "float32")
            T.copy(A[core, 0], tile)
            with T.SimtVF(threads=64) as function:
                assert function.thread_extents == T.get_thread_extents() == [64, 1, 1]
                for i in T.Parallel(256):
                    tile[i] = tile[i] * 2.0
            with T.SimtVF(64, latency=100):
                for i in T.Parallel(256):
                    tile[i] = tile[i] + 1.0
            T.copy(tile, B[core, 0])

    made = tl.compile(kernel, target="ascend", execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b = torch.randn(4, 256), torch.full((4, 256), torch.nan)
    made(a, b)
    assert torch.equal(b, a * 2 + 1)
    assert made.report()["engine_copies"] == 2
    assert "__launch_bounds__(64)" in made.get_kernel_source()


def marked(*frames: Any, nested: bool = False) -> Any:
    """A kernel with functions one after another, or one inside of the other."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1) as _:
            if nested:
                with frames[0](), frames[1]():
                    A[0] = 1.0
            else:
                for frame in frames:
                    with frame():
                        A[0] = 1.0

    return kernel


def test_functions_of_one_launch_have_the_same_threads_and_do_not_nest() -> None:
    with pytest.raises(CodeGenerationUnimplementedError, match=r"64, 1, 1.*32, 1, 1"):
        marked(lambda: T.SimtVF(32), lambda: T.SimtVF(64))
    with pytest.raises(KernelNestingError, match="T.SimtVF inside"):
        marked(T.SimtVF, T.SimtVF, nested=True)
    marked(lambda: T.SimtVF((8, 4)), lambda: T.SimtVF([8, 4]))


@pytest.mark.parametrize("threads", [0, (), (1, 2, 3, 4), 2048, "many", 1.5])
def test_threads_are_counts(threads: Any) -> None:
    with pytest.raises(LaunchShapeError, match="threads="):
        T.SimtVF(threads)


def test_a_latency_is_a_number_of_cycles() -> None:
    for latency in (-1, 1.5, True):
        with pytest.raises(OpArgumentError, match="latency="):
            T.SimtVF(latency=latency)
