"""Four rows gathered and scattered by the copy engine, and loads of pairs of blocks: emulated, compiled, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedCopyError, EmulatedFenceError
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.errors.passes import UnsupportedOnTargetError

SM_100 = {"kind": "cuda", "arch": "sm_100"}
CHECKED = {"tile.emulate_check": True}


def moved(rows: int, columns: int, *, fences: bool = True, waits: bool = True) -> Any:
    """Rows of B that `At` names are twice the rows of A that `From` names."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, columns), "float32"),
        From: T.Tensor((4,), "int32"),
        At: T.Tensor((4,), "int32"),
        B: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, 32), threads=32) as bx:
            tile = T.alloc_shared((4, 32), "float32")
            full = T.alloc_barrier(1)
            if T.shuffle_elect(0):
                T.mbarrier_arrive_expect_tx(full, T.tma_gather4_bytes(32, "float32"))
                T.tma_gather4(A, tile, bx * 32, [From[i] for i in (0, 1, 2, 3)], barrier=full)
            T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(4, 32):
                tile[i, j] = tile[i, j] * 2.0
            if fences:
                T.fence_proxy_async()
            T.sync_threads()
            if T.shuffle_elect(0):
                T.tma_scatter4(tile, B, bx * 32, [At[i] for i in (0, 1, 2, 3)])
                if waits:
                    T.tma_store_wait(0, False)

    return kernel


def aligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def arguments(rows: int, columns: int) -> tuple[np.ndarray, ...]:
    a = aligned(np.random.default_rng(0).random((rows, columns)).astype("float32"))
    b = aligned(np.full((rows, columns), 7, "float32"))
    return a, np.array([2, 2, -1, rows + 3], "int32"), np.array([1, 4, 0, rows], "int32"), b


@pytest.mark.emulate
@pytest.mark.parametrize("columns", [32, 44])
def test_rows_are_moved(columns: int) -> None:
    a, source, target, b = arguments(5, columns)
    tl.compile(moved(5, columns), target=SM_100, execution="emulate", pass_configs=CHECKED)(a, source, target, b)
    expected = np.full_like(b, 7)
    expected[1], expected[4], expected[0] = 2 * a[2], 2 * a[2], 0
    assert (b == expected).all()


@pytest.mark.emulate
def test_rows_of_negative_indices_are_not_stored() -> None:
    a, source, target, b = arguments(5, 32)
    target[1] = -1
    with pytest.raises(EmulatedCopyError, match="negative index"):
        tl.compile(moved(5, 32), target=SM_100, execution="emulate")(a, source, target, b)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("options", "kind", "names"),
    [
        ({"fences": False}, EmulatedFenceError, "no fence for asynchronous accesses"),
        ({"waits": False}, EmulatedCopyError, "nothing waits for it"),
    ],
)
def test_mistakes_are_found(options: dict[str, bool], kind: type[Exception], names: str) -> None:
    with pytest.raises(kind, match=names):
        tl.compile(moved(5, 32, **options), target=SM_100, execution="emulate", pass_configs=CHECKED)(*arguments(5, 32))


def pairs() -> Any:
    """Two blocks load 16 elements each; the even one waits for both, then the other reads its own."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            tile = T.alloc_shared((16,), "float32")
            full = T.alloc_cluster_barrier(1)
            tx = T.get_thread_binding(0)
            tensor = T.create_tma_descriptor(7, 1, A.data, 64, 4, 16, 1, 0, 0, 2, 0)
            if tx == 0 and T.block_rank_in_cluster() == 0:
                T.mbarrier_arrive_expect_tx(full, 2 * 16 * 4)
            if tx == 0:
                T.tma_load_2sm(tensor, full, T.access_ptr(tile[0], "w"), bx * 16)
            if T.block_rank_in_cluster() == 0:
                T.mbarrier_wait_parity(full, 0)
            T.cluster_sync()
            for i in T.Parallel(16):
                B[bx * 16 + i] = tile[i]

    return kernel


@pytest.mark.emulate
def test_a_pair_of_blocks_loads_for_one_barrier() -> None:
    a, b = aligned(np.arange(64, dtype="float32")), np.full((64,), np.nan, "float32")
    tl.compile(pairs(), target=SM_100, execution="emulate")(a, b)
    assert (b == a).all()


def test_it_compiles(build: Any) -> None:
    source = build(moved(5, 32), ("sm_100",))
    assert "tile::gather4" in source and "tile::scatter4" in source
    assert "cta_group::2" in build(pairs(), ("sm_100",))


@pytest.mark.parametrize("kernel", [lambda: moved(5, 32), pairs])
def test_other_architectures_are_refused(kernel: Any) -> None:
    with pytest.raises(UnsupportedOnTargetError, match="has no tma_(gather4|load_2sm)"):
        tl.compile(kernel(), target={"kind": "cuda", "arch": "sm_90"})


def gathered(statement: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 64), "float16"), C: T.Tensor((8, 8, 64), "float16")):
        with T.Kernel(1, threads=32) as _bx:
            tile = T.alloc_shared((4, 32), "float16")
            statement(A, C, tile, T.alloc_barrier(1))


def tile(shape: tuple[int, int], dtype: str = "float16") -> Any:
    return T.alloc_shared(shape, dtype)


@pytest.mark.parametrize(
    ("kind", "names", "statement"),
    [
        (OpArgumentError, "3 rows", lambda A, C, t, b: T.tma_gather4(A, t, 0, [1, 2, 3], barrier=b)),
        (OpArgumentError, r"shape \(8, 8, 64\)", lambda A, C, t, b: T.tma_gather4(C, t, 0, [1, 2, 3, 4], barrier=b)),
        (OpArgumentError, "A is global", lambda A, C, t, b: T.tma_gather4(A, A, 0, [1, 2, 3, 4], barrier=b)),
        (OpArgumentError, "swizzle", lambda A, C, t, b: T.tma_scatter4(t, A, 0, [1, 2, 3, 4], swizzle="128B")),
        (OpArgumentError, "(8, 32)", lambda A, C, t, b: T.tma_scatter4(tile((8, 32)), A, 0, [0] * 4)),
        (OpDTypeError, "float32", lambda A, C, t, b: T.tma_scatter4(tile((4, 32), "float32"), A, 0, [0] * 4)),
        (OpArgumentError, "multiple of 16", lambda A, C, t, b: T.tma_scatter4(tile((4, 9)), A, 0, [0] * 4)),
        (OpArgumentError, "no tensor map", lambda A, C, t, b: T.tma_load_2sm(A, b, t, 0)),
    ],
)  # fmt: skip
def test_arguments_are_checked(kind: type[Exception], names: str, statement: Any) -> None:
    with pytest.raises(kind, match=names):
        gathered(statement)
