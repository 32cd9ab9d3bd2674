"""Where tiles live."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import SharedMemoryLimitError, WorkspaceLimitError


def places(kernel: Any) -> dict[str, str]:
    return {tile["name"]: tile["place"] for tile in kernel.report()["tiles"]}


def test_small_tiles_on_the_stack_large_ones_in_the_workspace() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8192,), "float32")):
        with T.Kernel(1):
            small = T.alloc_shared((4096,), "float32")
            large = T.alloc_fragment((4097,), "float32")
            T.fill(small, 1.0)
            T.fill(large, 2.0)
            T.copy(small, A[0:4096])
            T.copy(large[0:4096], A[4096:8192])

    compiled = tl.compile(kernel, target="cpu")
    assert places(compiled) == {"small": "stack", "large": "workspace"}
    assert compiled.report()["shared_bytes"] == 4096 * 4
    a = torch.zeros(8192)
    compiled(a)
    assert a.tolist() == [1.0] * 4096 + [2.0] * 4096


def test_the_stack_is_not_filled() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            tiles = [T.alloc_shared((4096,), "float32") for _ in range(16)]
            for at, tile in enumerate(tiles):
                T.fill(tile, float(at))
            for at, tile in enumerate(tiles):
                A[at] = tile[at]

    compiled = tl.compile(kernel, target="cpu")
    assert sorted(places(compiled).values()).count("stack") == 8
    a = torch.zeros(16)
    compiled(a)
    assert a.tolist() == list(range(16))


def test_a_tile_keeps_nothing_between_blocks_that_a_block_relies_on() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(64) as bx:
            tile = T.alloc_shared((8192,), "int32")
            T.fill(tile, bx)
            A[bx] = tile[0] + tile[8191]

    a = torch.zeros(64, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(a)
    assert a.tolist() == [2 * at for at in range(64)]


def test_a_tile_of_runtime_extent() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((n,), "float32")
            for i in T.Parallel(n):
                tile[i] = A[i] + 1.0
            for i in T.Parallel(n):
                B[i] = tile[n - 1 - i]

    run = tl.compile(kernel, target="cpu")
    for size in (1, 5, 1000, 100_003):
        a, b = torch.randn(size), torch.zeros(size)
        run(a, b)
        assert torch.equal(b, (a + 1).flip(0))


def test_variables_of_an_inner_loop_cost_no_allocation() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.serial(64):
                total = T.alloc_var("int32", 0)
                for j in T.serial(i + 1):
                    total = total + A[j]
                B[i] = total

    compiled = tl.compile(kernel, target="cpu")
    a, b = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    compiled(a, b)
    assert torch.equal(b, a.cumsum(0).int())
    assert "workspace" not in str(compiled.report())


def test_tiles_above_the_limit() -> None:
    def program(alloc: Any) -> Any:
        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1):
                huge = alloc((1 << 16, 1 << 11), "float32")
                small = alloc((16,), "float32")
                huge[0, 0] = 1.0
                small[0] = huge[0, 0]
                A[0] = small[0]

        return kernel

    for alloc, error in ((T.alloc_shared, SharedMemoryLimitError), (T.alloc_fragment, WorkspaceLimitError)):
        with pytest.raises(error) as caught:
            tl.compile(program(alloc), target="cpu")
        for word in (str(4 << 27), str(1 << 28), "huge", "small"):
            assert word in caught.value.message


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
def test_tiles_without_elements(scope: str) -> None:
    allocate = getattr(T, f"alloc_{scope}")

    @T.prim_func
    def kernel(A: T.Tensor((4, 0), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            tile = allocate((4, 0), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(4, 0):
                tile[i, j] = tile[i, j] + 1.0
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, B)

    b = torch.full((4,), 7.0)
    tl.compile(kernel, target="cpu")(torch.empty(4, 0), b)
    assert b.tolist() == [0.0] * 4


def test_large_tiles_on_the_stack_begin_a_cache_line() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "uint64")):
        with T.Kernel(1):
            odd = T.alloc_local((3,), "uint8")
            tile = T.alloc_shared((1000,), "float32")
            other = T.alloc_shared((1000,), "float16")
            T.fill(odd, 1)
            T.fill(tile, 1.0)
            T.fill(other, 1.0)
            A[0] = T.reinterpret(T.address_of(tile[0]), "uint64")
            A[1] = T.reinterpret(T.address_of(other[0]), "uint64")

    a = torch.ones(2, dtype=torch.int64).view(torch.uint64)
    tl.compile(kernel, target="cpu")(a)
    assert [address % 64 for address in a.tolist()] == [0, 0]
