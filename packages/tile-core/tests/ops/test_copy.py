"""`tile.copy`: pairing of axes, padding, clipping, overlap, conversion, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import CopyOverlapError, CopyShapeError, RegionBoundsError

POISON = 77


def poisoned(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.full(shape, POISON, dtype=dtype)


def through_tile(rows: int, columns: int, block: tuple[int, int], safe: int | None = None) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((rows, columns), "int32"),
        Out: T.Tensor((T.ceildiv(rows, block[0]) * block[0], T.ceildiv(columns, block[1]) * block[1]), "int32"),
    ):
        with T.Kernel(T.ceildiv(columns, block[1]), T.ceildiv(rows, block[0])) as (bx, by):
            if safe is not None:
                T.annotate_safe_value({A: safe})
            tile = T.alloc_shared(block, "int32")
            T.copy(A[by * block[0], bx * block[1]], tile)
            T.copy(tile, Out[by * block[0], bx * block[1]])

    return kernel


@pytest.mark.parametrize("safe", [None, -99])
@pytest.mark.parametrize(("rows", "columns"), [(60, 60), (1, 1), (64, 64), (67, 13), (3, 129)])
def test_reads_beyond_a_tensor_give_the_safe_value(run: Any, rows: int, columns: int, safe: int | None) -> None:
    a = torch.arange(rows * columns, dtype=torch.int32).reshape(rows, columns)
    padded = (-(-rows // 32) * 32, -(-columns // 64) * 64)
    out = poisoned(*padded)
    run(through_tile(rows, columns, (32, 64), safe), a, out)
    expected = torch.full(padded, safe or 0, dtype=torch.int32)
    expected[:rows, :columns] = a
    assert torch.equal(out, expected)


def test_the_safe_value_may_be_a_constant_of_the_language(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5,), "float32"), Most: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: -T.infinity("float32")})
            tile, most = T.alloc_fragment((8,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A[0:8], tile)
            T.reduce_max(tile, most)
            Most[0] = most[0]

    a, most = torch.full((5,), -7.0), torch.full((1,), float("nan"))
    run(kernel, a, most)
    assert most.item() == -7.0


def test_writes_beyond_a_tensor_are_skipped(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1000,), "int32"), B: T.Tensor((1000,), "int32")):
        with T.Kernel(T.ceildiv(1000, 256)) as bx:
            tile = T.alloc_shared((256,), "int32")
            T.copy(A[bx * 256 : (bx + 1) * 256], tile)
            T.copy(tile, B[bx * 256])

    a, backing = torch.arange(1000, dtype=torch.int32), poisoned(1024)
    run(kernel, a, backing[:1000])
    assert torch.equal(backing[:1000], a)
    assert (backing[1000:] == POISON).all()


def test_a_shorter_slice_pads_an_on_chip_tile(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100,), "int32"), Out: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "int32")
            T.fill(tile, POISON)
            T.copy(A[10 : 10 + n], tile)
            T.copy(tile, Out)

    a, out = torch.arange(100, dtype=torch.int32), poisoned(64)
    for n in (0, 1, 17, 64):
        run(kernel, a, out, n)
        assert torch.equal(out[:n], a[10 : 10 + n])
        assert (out[n:] == 0).all()


def test_a_shorter_destination_slice_keeps_what_is_behind_it(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), Out: T.Tensor((100,), "int32"), n: T.int32):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "int32")
            T.copy(A, tile)
            T.copy(tile, Out[5 : 5 + n])

    a = torch.arange(64, dtype=torch.int32)
    for n in (0, 1, 17, 64):
        out = poisoned(100)
        run(kernel, a, out, n)
        assert torch.equal(out[5 : 5 + n], a[:n])
        assert (out[:5] == POISON).all()
        assert (out[5 + n :] == POISON).all()


def test_a_larger_destination_keeps_its_other_elements(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), Out: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((32,), "int32")
            T.copy(A, tile)
            T.copy(tile, Out[0:64])

    out = poisoned(64)
    run(kernel, torch.arange(32, dtype=torch.int32), out)
    assert torch.equal(out[:32], torch.arange(32, dtype=torch.int32))
    assert (out[32:] == POISON).all()


def test_unit_axes_are_paired_and_broadcast(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2, 3, 8, 4), "int32"), Row: T.Tensor((4,), "int32"), Out: T.Tensor((3, 8, 4), "int32")):
        with T.Kernel(3) as b:
            tile = T.alloc_shared((8, 4), "int32")
            T.copy(A[1, b, 0, 0], tile)
            row = T.alloc_fragment((1, 4), "int32")
            T.copy(Row, row[0, :])
            wide = T.alloc_fragment((8, 4), "int32")
            T.copy(row[0:1, :], wide)
            for i, j in T.Parallel(8, 4):
                wide[i, j] += tile[i, j]
            T.copy(wide, Out[b, :, :])

    a, row, out = (
        torch.arange(192, dtype=torch.int32).reshape(2, 3, 8, 4),
        torch.arange(4, dtype=torch.int32),
        poisoned(3, 8, 4),
    )
    run(kernel, a, row, out)
    assert torch.equal(out, a[1] + row)


@pytest.mark.parametrize("shift", [1, 5, -3])
def test_overlapping_regions_are_read_before_they_are_written(run: Any, shift: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "int32")
            T.copy(A, tile)
            if shift > 0:
                T.copy(tile[0 : 64 - shift], tile[shift:64])
            else:
                T.copy(tile[-shift:64], tile[0 : 64 + shift])
            T.copy(tile, A)

    a = torch.arange(64, dtype=torch.int32)
    expected = a.clone()
    if shift > 0:
        expected[shift:] = a[: 64 - shift]
    else:
        expected[: 64 + shift] = a[-shift:]
    run(kernel, a)
    assert torch.equal(a, expected)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float32", "int8"),
        ("float32", "float8_e4m3fn"),
        ("int64", "int32"),
        ("int32", "uint8"),
        ("float16", "bool"),
        ("bfloat16", "float32"),
    ],
)
def test_elements_are_converted(run: Any, source: str, target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((97,), source), B: T.Tensor((97,), target)):
        with T.Kernel(1):
            tile = T.alloc_shared((97,), source)
            T.copy(A, tile)
            T.copy(tile, B)

    wide = torch.randint(-100, 100, (97,)) if "int" in source else torch.linspace(-99.75, 100.25, 97)
    a = wide.to(getattr(torch, source))
    b = torch.zeros(97).to(getattr(torch, target))
    run(kernel, a, b)
    assert torch.equal(b.float(), a.to(getattr(torch, target)).float())


def test_two_elements_are_one_converting_store(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int64"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.copy(A[1], B[3])

    b = poisoned(4)
    run(kernel, torch.tensor([1, -5, 3, 4]), b)
    assert b.tolist() == [POISON, POISON, POISON, -5]


def trace(body: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100, 100), "float32"), n: T.int32):
        with T.Kernel(1):
            body(A, n)


@T.macro
def too_long(A: Any, n: Any) -> None:
    tile = T.alloc_shared((32,), "float32")
    T.copy(A[0, 0:64], tile)


@T.macro
def whole_buffers(A: Any, n: Any) -> None:
    tile = T.alloc_shared((100, 50), "float32")
    T.copy(A, tile)


@T.macro
def outside_a_tile(A: Any, n: Any) -> None:
    tile = T.alloc_shared((32, 32), "float32")
    T.copy(A[0:32, 0:32], tile[8, 0])


@T.macro
def unknown_overlap(A: Any, n: Any) -> None:
    tile = T.alloc_shared((64,), "float32")
    T.copy(tile[0:n], tile[1 : n + 1])


@T.macro
def too_many_axes(A: Any, n: Any) -> None:
    tile = T.alloc_shared((4, 4, 4), "float32")
    T.copy(tile, A[0, 0])


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (too_long, CopyShapeError, ["A", "tile", "64", "32"]),
        (whole_buffers, CopyShapeError, ["A", "tile", "50"]),
        (outside_a_tile, RegionBoundsError, ["tile", "40"]),
        (unknown_overlap, CopyOverlapError, ["tile"]),
        (too_many_axes, CopyShapeError, ["A", "(4, 4, 4)"]),
    ],
)
def test_refusals_name_the_buffers(body: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        trace(body)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.span is not None


def test_the_padding_is_converted_like_an_element(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int8"), Out: T.Tensor((8,), "uint8"), n: T.int32):
        with T.Kernel(1):
            T.annotate_safe_value({A: -1})
            tile = T.alloc_shared((8,), "uint8")
            T.copy(A[0:n], tile)
            T.copy(tile, Out)

    out = torch.zeros(8, dtype=torch.uint8)
    run(kernel, torch.arange(8, dtype=torch.int8), out, 3)
    assert out.tolist() == [0, 1, 2] + [255] * 5
