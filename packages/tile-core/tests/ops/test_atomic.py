"""Atomics: elements and tiles, values and tiles as sources, previous values, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import AtomicOperandError, CopyShapeError, MemoryOrderError

UPDATES = {"add": torch.add, "max": torch.maximum, "min": torch.minimum}


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16", "bfloat16", "float64", "int16"])
@pytest.mark.parametrize("kind", UPDATES)
def test_tiles(run: Any, kind: str, dtype: str) -> None:
    update = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def kernel(A: T.Tensor((8, 6), dtype), Out: T.Tensor((8, 6), dtype)):
        with T.Kernel(3):
            tile = T.alloc_shared((8, 6), dtype)
            T.copy(A, tile)
            update(Out, tile)

    torch_dtype = getattr(torch, dtype)
    a, out = torch.randint(-9, 9, (8, 6)).to(torch_dtype), torch.randint(-9, 9, (8, 6)).to(torch_dtype)
    expected = out
    for _ in range(3):
        expected = UPDATES[kind](expected, a)
    run(kernel, a, out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize(("kind", "value", "expected"), [("add", 1, 128), ("max", None, 127), ("min", None, 373)])
def test_elements_from_every_block(run: Any, kind: str, value: int | None, expected: int) -> None:
    update = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def kernel(Out: T.Tensor((1,), "int32")):
        with T.Kernel(128) as b:
            if value is not None:
                update(Out[0], value)
            elif kind == "max":
                update(Out[0], b)
            else:
                update(Out[0], 500 - b)

    out = torch.full((1,), 1000 if kind == "min" else 0, dtype=torch.int32)
    run(kernel, out)
    assert out.item() == expected


def test_one_value_for_a_whole_region(run: Any) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((10,), "int32")):
        with T.Kernel(4):
            T.atomic_add(Out[2:7], 3)

    out = torch.zeros(10, dtype=torch.int32)
    run(kernel, out)
    assert out.tolist() == [0, 0, 12, 12, 12, 12, 12, 0, 0, 0]


def test_the_previous_value(run: Any) -> None:
    @T.prim_func
    def kernel(Count: T.Tensor((1,), "int32"), Seen: T.Tensor((5,), "int32")):
        with T.Kernel(5) as b:
            ticket = T.atomic_add(Count[0], 1, return_prev=True)
            Seen[ticket] = b

    count, seen = torch.zeros(1, dtype=torch.int32), torch.full((5,), -1, dtype=torch.int32)
    run(kernel, count, seen)
    assert count.item() == 5
    assert sorted(seen.tolist()) == [0, 1, 2, 3, 4]


def test_nothing_outside_of_the_tensor(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1001,), "float16")):
        with T.Kernel(T.ceildiv(1001, 256)) as b:
            tile = T.alloc_shared((256,), "float16")
            T.fill(tile, 1)
            T.atomic_add(A[b * 256], tile)
            for i in T.Parallel(256):
                T.atomic_add(A[b * 256 + i], 1)

    backing = torch.zeros(1024).half()
    run(kernel, backing[:1001])
    assert (backing[:1001] == 2).all()
    assert (backing[1001:] == 0).all()


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_adjacent_elements(run: Any, dtype: str, width: int) -> None:
    update = getattr(T, f"atomic_addx{width}")

    @T.prim_func
    def kernel(A: T.Tensor((3, 8), dtype), Out: T.Tensor((3, 8), dtype)):
        with T.Kernel(3) as b:
            for i in T.serial(8 // width):
                update(Out[b, i * width], A[b, i * width])

    a, out = torch.arange(24).reshape(3, 8).to(getattr(torch, dtype)), torch.ones(3, 8).to(getattr(torch, dtype))
    run(kernel, a, out)
    assert torch.equal(out, a + 1)


def test_or_load_store(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            T.atomic_or(A[0], 12)
            T.atomic_store(A[1], T.atomic_load(A[0]) + 1, memory_order="release")

    a = torch.tensor([3, 0, 9], dtype=torch.int32)
    run(kernel, a)
    assert a.tolist() == [15, 16, 9]


def test_a_unit_axis_of_the_source_is_broadcast(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1, 6), "int32"), Out: T.Tensor((4, 6), "int32")):
        with T.Kernel(1):
            T.atomic_add(Out, A[0:1, 0:6])

    a, out = torch.arange(6, dtype=torch.int32).reshape(1, 6), torch.ones(4, 6, dtype=torch.int32)
    run(kernel, a, out)
    assert torch.equal(out, (a + 1).expand(4, 6))


def refuse(body: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "bool"), n: T.int32):
        with T.Kernel(1):
            tile = T.alloc_fragment((8,), "float32")
            shared = T.alloc_shared((2, 8), "float32")
            body(A, B, n, tile, shared)


CASES = [
    (lambda A, B, n, tile, shared: T.atomic_add(tile[0], 1), AtomicOperandError, ["tile", "local.fragment"]),
    (lambda A, B, n, tile, shared: T.atomic_add(B[0], 1), AtomicOperandError, ["B", "bool"]),
    (lambda A, B, n, tile, shared: T.atomic_or(A[0], 1), AtomicOperandError, ["A", "float32"]),
    (lambda A, B, n, tile, shared: T.atomic_add(A, shared), CopyShapeError, ["shared", "A"]),
    (lambda A, B, n, tile, shared: T.atomic_add(A[0:n], tile), AtomicOperandError, ["tile", "A"]),
    (lambda A, B, n, tile, shared: T.atomic_add(A, tile, return_prev=True), AtomicOperandError, ["return_prev"]),
    (lambda A, B, n, tile, shared: T.atomic_addx2(A[0], 1.0), AtomicOperandError, ["atomic_addx2", "src"]),
    (lambda A, B, n, tile, shared: T.atomic_addx2(A[0:3], tile[0:3]), AtomicOperandError, ["2 adjacent"]),
    (
        lambda A, B, n, tile, shared: T.atomic_add(A[0], 1, memory_order="strong"),
        MemoryOrderError,
        ["strong", "relaxed"],
    ),
    (lambda A, B, n, tile, shared: T.atomic_load(A[0], "release"), MemoryOrderError, ["release"]),
    (lambda A, B, n, tile, shared: T.atomic_store(A[0], 1, "acquire"), MemoryOrderError, ["acquire"]),
]


@pytest.mark.parametrize(("body", "error", "words"), CASES)
def test_refusals(body: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        refuse(body)
    assert all(word in str(caught.value) for word in words), str(caught.value)
