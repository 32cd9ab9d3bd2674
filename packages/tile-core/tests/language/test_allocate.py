"""Allocation: variables and their start values, scopes, workspaces, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import AllocationError
from tile_core.interpreter import Program


def test_variables_start_as_told() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((7,), "float64"), s: T.int32):
        with T.Kernel(1):
            none = T.alloc_var("float32")
            positional = T.alloc_var("int32", 3)
            keyword = T.alloc_var("float64", init=1e300)
            scoped = T.alloc_var("int32", 5, "local.var")
            only_scope = T.alloc_var("int32", "local.var")
            expression = T.alloc_var("int32", s * 2)
            converted = T.alloc_var("uint8", -1)
            for i, v in enumerate((none, positional, keyword, scoped, only_scope, expression, converted)):
                Out[i] = v

    out = torch.full((7,), 77.0, dtype=torch.float64)
    Program(kernel)(out, 21)
    assert out.tolist() == [0, 3, 1e300, 5, 0, 42, 255]


def test_a_start_value_is_taken_once() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            a = 1
            b = T.alloc_var("int32", init=a)
            a = 2
            d = T.alloc_var("int32", init=a)
            Out[0] = b
            Out[1] = d

    out = torch.zeros(2, dtype=torch.int32)
    Program(kernel)(out)
    assert out.tolist() == [1, 2]


def test_scopes() -> None:
    seen: dict[str, str] = {}

    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            tiles = (
                T.alloc_shared(4, "float32"),
                T.alloc_shared((4,), "float32", "shared"),
                T.alloc_fragment([4], "float32"),
                T.alloc_local((4,), T.float32),
                T.alloc_reducer((4,), torch.float32),
                T.alloc_barrier([128, 2]),
            )
            for key, tile in zip("abcdef", tiles, strict=True):
                seen[key] = f"{tile.scope} {tile.shape} {tile.dtype}"

    assert seen == {
        "a": "shared.dyn (4,) float32",
        "b": "shared (4,) float32",
        "c": "local.fragment (4,) float32",
        "d": "local (4,) float32",
        "e": "local.reducer (4,) float32",
        "f": "shared.barrier (2,) uint64",
    }


def test_a_workspace_is_one_for_all_blocks() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((8,), "int32")):
        space = T.alloc_global((8,), "int32")
        with T.Kernel(8) as b:
            space[b] = b * b
        with T.Kernel(8) as b:
            Out[b] = space[7 - b]

    out = torch.zeros(8, dtype=torch.int32)
    Program(kernel)(out)
    assert out.tolist() == [(7 - b) ** 2 for b in range(8)]


CASES = [
    (lambda: T.alloc_shared((4, -1), "float32"), ["axis 1", "-1"]),
    (lambda: T.alloc_shared((4, 2.5), "float32"), ["2.5"]),
    (lambda: T.alloc_var("int32", 1, init=2), ["two initial values"]),
    (lambda: T.alloc_var("int32", 1, 2), ["(1, 2)"]),
    (lambda: T.alloc_var("int32", "local.var", 1), ["local.var"]),
    (lambda: T.alloc_shared("4", "int32"), ["shape", "'4'"]),
    (lambda: T.alloc_fragment(T, "int32"), ["shape", "tile_core.language"]),
    (lambda: T.alloc_shared((4,), "int32", (4,)), ["scope", "(4,)"]),
    (lambda: T.alloc_barrier(0), ["arrive_count=0"]),
    (lambda: T.alloc_barrier([]), ["[]"]),
    (lambda: T.alloc_reducer((4,), "float32", replication="some"), ["some"]),
]


@pytest.mark.parametrize(("build", "words"), CASES)
def test_refusals(build: Any, words: list[str]) -> None:
    with pytest.raises(AllocationError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                build()

    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_tile_outside_of_a_kernel_is_refused() -> None:
    with pytest.raises(AllocationError, match=r"T\.Kernel"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            T.alloc_shared((4,), "float32")


def test_an_extent_that_reads_a_buffer_is_refused() -> None:
    with pytest.raises(AllocationError, match="extent 0 of tile reads a buffer") as caught:

        @T.prim_func
        def kernel(A: T.Tensor((8,), "int32")):
            with T.Kernel(8) as b:
                tile = T.alloc_shared(A[b], "int32")
                T.clear(tile)

    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("allocate", "scope"), [(T.alloc_shared, "sharedd"), (T.alloc_fragment, "fragment"), (T.allocate, "mem")]
)
def test_a_scope_that_is_no_memory(allocate: Any, scope: str) -> None:
    with pytest.raises(AllocationError, match=f"'{scope}', which is no memory"):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                allocate((8,), "float32", scope=scope)
