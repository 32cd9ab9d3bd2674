"""Boxes through the tensor copy engine, against numpy: every rank and swizzle, boxes partly or wholly outside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors import EmulatedCopyError
from tile_core.ir.descriptors import named
from tile_core.testing import handmade as h
from tile_cuda.instructions.calls import address
from tile_cuda.instructions.mbarrier import (
    fence_async,
    fence_barrier_init,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
)
from tile_cuda.instructions.tensor_map import tensor_map
from tile_cuda.instructions.tma import (
    prefetch_tensor_map,
    tma_load,
    tma_reduce_add,
    tma_store,
    tma_store_commit,
    tma_store_wait,
)

THREADS = 64


def strides_of(array: np.ndarray) -> list[int]:
    """In bytes, of each axis but the innermost, innermost first."""
    return [int(stride) for stride in array.strides[::-1][1:]]


def launch(
    array: np.ndarray, dtype: str, box: Sequence[int], at: Sequence[int], swizzle: int, kind: str
) -> tuple[list[Any], S.Stmt]:
    """`load`: the bytes of shared memory after a load from A go to B. `store`, `add`: from the bytes of B into A."""
    size = prod(box) * array.itemsize
    a = tirx.decl_buffer(array.shape, dtype, "A", scope="global")
    b = tirx.decl_buffer((size,), "uint8", "B", scope="global")
    tile, full = h.shared_buffer("tile", (size,), "uint8"), h.shared_buffer("full", (1,), "uint64")
    described = named("A_map")
    extents = list(array.shape[::-1])
    made = tensor_map(address(a, *[0] * array.ndim), extents, strides_of(array), dtype=dtype, box=box, swizzle=swizzle)

    def body(_block: Any, thread: Any) -> list[Any]:
        first, barrier, start = E.EQ(thread, h.int32(0)), address(full, 0), address(tile, 0)
        move = {"load": (b, tile), "store": (tile, b), "add": (tile, b)}[kind]

        def bytes_of_thread(step: Any) -> list[Any]:
            position = step * h.int32(THREADS) + thread
            return [h.when(E.LT(position, h.int32(size)), h.store(move[0], h.load(move[1], position), position))]

        move_all = h.loop(-(-size // THREADS), bytes_of_thread)
        if kind == "load":
            return [
                h.when(first, mbarrier_init(barrier, 1), fence_barrier_init(), prefetch_tensor_map(described)),
                h.barrier(),
                h.when(first, mbarrier_expect(barrier, size), tma_load(start, described, barrier, *at)),
                mbarrier_wait(barrier, 0),
                move_all,
            ]
        copy = tma_store if kind == "store" else tma_reduce_add
        leave = h.when(first, copy(described, start, *at), tma_store_commit(), tma_store_wait(0))
        return [move_all, fence_async(), h.barrier(), leave]

    return [a, b], h.do(S.Bind(described, made), h.Kernel(body, THREADS, shared=[tile, full]).launch())


def together(*launches: tuple[list[Any], S.Stmt]) -> Any:
    """One program of several launches, each with parameters of its own: compiled once."""
    return h.program([param for params, _stmt in launches for param in params], *(stmt for _params, stmt in launches))


def part(array: np.ndarray, box: Sequence[int], at: Sequence[int]) -> tuple[Any, Any]:
    """What of `array` is in the box, and where in the box: two tuples of slices."""
    inner, outer = [], []
    for extent, edge, begin in zip(array.shape, box[::-1], at[::-1], strict=True):
        low, high = min(max(begin, 0), extent), min(max(begin + edge, 0), extent)
        inner.append(slice(low, high))
        outer.append(slice(low - begin, high - begin) if high > low else slice(0, 0))
    return tuple(inner), tuple(outer)


def image(box: np.ndarray, swizzle: int) -> np.ndarray:
    """The bytes of a box as they lie in shared memory."""
    offset = np.arange(box.nbytes)
    place = offset ^ ((offset >> 7) % {0: 1, 32: 2, 64: 4, 128: 8}[swizzle] << 4)
    found = np.empty(box.nbytes, "uint8")
    found[place] = np.frombuffer(box.tobytes(), "uint8")
    return found


def numbers(shape: Sequence[int], dtype: str) -> np.ndarray:
    """An array that begins at a multiple of 16 bytes, of small whole numbers."""
    size = prod(shape)
    room = np.empty(size * np.dtype(dtype).itemsize + 16, "uint8")
    begin = -room.ctypes.data % 16
    array = room[begin : begin + size * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    array[...] = (np.arange(size) % 251 + 1).reshape(shape)
    return array


ADDED = ("int32", "uint32", "uint64", "float16", "float32")
CASES = [
    # extents, box and coordinates innermost first
    ((64,), (64,), (0,), 0, "float16"),
    ((100,), (64,), (56,), 0, "int32"),
    ((24, 7), (16, 8), (16, -3), 0, "float16"),
    ((24, 7), (16, 8), (-8, 2), 32, "float16"),
    ((200, 9), (32, 16), (8, 1), 64, "float16"),
    ((200, 40), (64, 24), (152, 20), 128, "float16"),
    ((200, 40), (64, 24), (200, 0), 128, "float16"),
    ((64, 40), (128, 16), (0, 30), 128, "uint8"),
    ((40, 12, 3), (8, 5, 2), (36, 10, 2), 0, "float32"),
    ((64, 12, 3), (32, 5, 4), (0, -2, -1), 128, "float32"),
    ((16, 5, 3, 4), (16, 3, 2, 2), (0, 3, 1, 3), 32, "float16"),
    ((16, 5, 2, 3, 2), (8, 4, 2, 2, 2), (8, 2, 1, -1, 1), 0, "uint64"),
    ((64, 5, 2, 3, 2), (64, 4, 2, 2, 1), (0, 2, 0, 2, 1), 128, "float16"),
]


# Only loads begin at negative indices.
STORED = [(extents, box, tuple(max(0, index) for index in at), *rest) for extents, box, at, *rest in CASES]


def test_boxes_are_loaded(run: Any) -> None:
    launches, arrays, expected = [], [], []
    for extents, box, at, swizzle, dtype in CASES:
        array = numbers(extents[::-1], dtype)
        inside = np.zeros(box[::-1], dtype)
        source, target = part(array, box, at)
        inside[target] = array[source]
        launches.append(launch(array, dtype, box, at, swizzle, "load"))
        arrays += [array, np.full(inside.nbytes, 0xA5, "uint8")]
        expected.append(image(inside, swizzle))
    run(together(*launches), *arrays)
    for case, found, wanted in zip(CASES, arrays[1::2], expected, strict=True):
        assert (found == wanted).all(), case


def test_boxes_are_stored(run: Any) -> None:
    launches, arrays, expected = [], [], []
    for extents, box, at, swizzle, dtype in STORED:
        array, whole = numbers(extents[::-1], dtype), -numbers(box[::-1], dtype)
        launches.append(launch(array, dtype, box, at, swizzle, "store"))
        arrays += [array, image(whole, swizzle)]
        wanted = array.copy()
        target, source = part(array, box, at)
        wanted[target] = whole[source]
        expected.append(wanted)
    run(together(*launches), *arrays)
    for case, found, wanted in zip(STORED, arrays[::2], expected, strict=True):
        assert (found == wanted).all(), case


def test_boxes_are_added(run: Any) -> None:
    launches, arrays, expected = [], [], []
    cases = list(product(ADDED, ((0, 0), (24, 7)), (0, 64)))
    for dtype, at, swizzle in cases:
        array, whole = numbers((12, 40), dtype), numbers((8, 64 // np.dtype(dtype).itemsize), dtype)
        box = whole.shape[::-1]
        launches.append(launch(array, dtype, box, at, swizzle, "add"))
        arrays += [array, image(whole, swizzle)]
        wanted = array.copy()
        target, source = part(array, box, at)
        wanted[target] += whole[source]
        expected.append(wanted)
    run(together(*launches), *arrays)
    for case, found, wanted in zip(cases, arrays[::2], expected, strict=True):
        assert (found == wanted).all(), case


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("kind", "at", "why"),
    [
        ("load", (5, 0), "no multiple of 16 bytes in its row"),
        ("store", (-4, 0), "no multiple of 16 bytes in its row"),
        ("store", (8, -1), "a negative index"),
        ("add", (-8, 0), "a negative index"),
    ],
)
def test_boxes_that_end_a_kernel_on_a_device_are_found(emulate: Any, kind: str, at: tuple[int, int], why: str) -> None:
    array, whole = numbers((9, 200), "float16"), numbers((8, 32), "float16")
    with pytest.raises(EmulatedCopyError, match=why):
        emulate(together(launch(array, "float16", (32, 8), at, 64, kind)), array, image(whole, 64))


@pytest.mark.compile
@pytest.mark.parametrize("kind", ["load", "store", "add"])
def test_every_form_compiles(source_for: Any, kind: str) -> None:
    cases = [case for case in CASES if kind != "add" or case[-1] in ADDED]
    source = source_for(
        together(
            *(
                launch(numbers(extents[::-1], dtype), dtype, box, at, swizzle, kind)
                for extents, box, at, swizzle, dtype in cases
            )
        )
    )
    mnemonic = "cp.reduce.async" if kind == "add" else "cp.async"
    for rank in range(1, 6):
        assert f"{mnemonic}.bulk.tensor.{rank}d" in source
