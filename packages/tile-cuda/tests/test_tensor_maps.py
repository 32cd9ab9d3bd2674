"""Tensor maps of the author's own: what is loaded through them, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.device import DescriptorError
from tile_core.errors.emulator import EmulatedUnwrittenError
from tile_core.errors.ops import OpArgumentError

SM_90 = {"kind": "cuda", "arch": "sm_90"}
CHECKED = {"tile.emulate_check": True}


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 256 bytes."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def loaded(rows: int, columns: int, *, swizzle: int = 0, waits: bool = True) -> Any:
    """B = A, whose tiles are loaded by one thread through a map of the author's."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), "float16"), B: T.Tensor((rows, columns), "float16")):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 32), threads=128) as (bx, by):
            tile = T.alloc_shared((32, 64), "float16")
            full = T.alloc_barrier(1)
            tx = T.get_thread_binding(0)
            tensor = T.create_tma_descriptor(
                6, 2, A.data, columns, rows, 2, 2 * columns, 64, 32, 1, 1, 0, swizzle, 2, 0
            )
            if tx == 0:
                T.mbarrier_arrive_expect_tx(full, 64 * 32 * 2)
                T.tma_load(tensor, full[0], T.access_ptr(tile[0, 0], "w"), bx * 64, by * 32, 0)
            if waits:
                T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(32, 64):
                unit = (j // 8 ^ i % 8) if swizzle else j // 8
                B[by * 32 + i, bx * 64 + j] = tile[i, unit * 8 + j % 8]

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(("rows", "columns", "swizzle"), [(32, 64, 0), (32, 64, 3), (70, 136, 3), (1, 8, 0)])
def test_a_box_is_loaded(on_gpu: Any, rows: int, columns: int, swizzle: int) -> None:
    a, b = (
        aligned(np.random.default_rng(0).random((rows, columns)).astype("float16")),
        np.zeros((rows, columns), "float16"),
    )
    program = loaded(rows, columns, swizzle=swizzle)
    tl.compile(program, target=SM_90, execution="emulate", pass_configs=CHECKED)(a, b)
    assert (a == b).all()
    for found in (on_gpu(program, a, np.zeros_like(b)) or ())[1:]:
        assert (found == a).all()


@pytest.mark.emulate
def test_a_missing_wait_is_found() -> None:
    a, b = aligned(np.ones((32, 64), "float16")), np.zeros((32, 64), "float16")
    with pytest.raises(EmulatedUnwrittenError, match="tile"):
        tl.compile(loaded(32, 64, waits=False), target=SM_90, execution="emulate", pass_configs=CHECKED)(a, b)


@pytest.mark.emulate
def test_a_tensor_that_the_engine_cannot_address_is_named() -> None:
    a, b = aligned(np.ones((32, 60), "float16")), np.zeros((32, 60), "float16")
    with pytest.raises(DescriptorError, match="stride"):
        tl.compile(loaded(32, 60), target=SM_90, execution="emulate")(a, b)


def test_it_compiles(build: Any) -> None:
    source = build(loaded(64, 128), ("sm_90",))
    assert "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" in source
    assert "const __grid_constant__ TileTensorMap tensor" in source


GOOD = (6, 2, "A", 64, 32, 2, 128, 64, 32, 1, 1, 0, 0, 2, 0)


@pytest.mark.parametrize(
    ("position", "value", "names"),
    [
        (1, 3, "15 arguments for rank 3"),
        (1, 0, "rank 0"),
        (0, 99, "data_type 99"),
        (9, 2, "box strides"),
        (11, 1, "interleave 1"),
        (12, 4, "swizzle 4"),
        (14, 1, "oob_fill 1"),
        (7, 512, "a box has edges from 1 to 256"),
        (12, 1, "not swizzled in 32 bytes"),
    ],
)
def test_what_no_tensor_map_can_say_is_refused(position: int, value: int, names: str) -> None:
    given = [*GOOD[:position], value, *GOOD[position + 1 :]]
    with pytest.raises(OpArgumentError, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((32, 64), "float16")):
            with T.Kernel(1, threads=128) as _bx:
                T.create_tma_descriptor(*(A.data if each == "A" else each for each in given))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda m, f, t: T.tma_load(f, f, t, 0), "no tensor map"),
        (lambda m, f, t: T.tma_load(m, t, t, 0, 0), "mbarrier: tile is shared"),
        (lambda m, f, t: T.tma_load(m, f, t, 0), "1 coordinates of a tensor of 2 axes"),
        (lambda m, f, t: T.tma_load(m, f, t, 0, 0, 1), "eviction_policy 1"),
    ],
)
def test_loads_are_checked(call: Any, names: str) -> None:
    with pytest.raises(OpArgumentError, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((32, 64), "float16")):
            with T.Kernel(1, threads=128) as _bx:
                tile = T.alloc_shared((32, 64), "float16")
                full = T.alloc_barrier(1)
                call(T.create_tma_descriptor(*(A.data if each == "A" else each for each in GOOD)), full, tile)


def test_bytes_of_four_rows() -> None:
    assert T.tma_gather4_bytes(64, "float32") == 4 * 64 * 4
    for elements, dtype in ((0, "float16"), (True, "float16"), (8, "int4")):
        with pytest.raises(OpArgumentError, match="tma_gather4_bytes"):
            T.tma_gather4_bytes(elements, dtype)
