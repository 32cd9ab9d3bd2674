"""Small programs whose parts are rare: loops left early, tiles of one column, floats that no integer holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def same(func: Any, *arrays: np.ndarray) -> None:
    """Interpreted and emulated alike, under checks."""
    wanted, found = [one.copy() for one in arrays], [one.copy() for one in arrays]
    tl.compile(func, target="interpret")(*wanted)
    tl.compile(func, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})(*found)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("flags", [[0, 1, 1, 0, 2, 0], [0] * 6])
def test_ways_out_of_an_iteration_are_ordered(flags: list[int]) -> None:
    @T.prim_func
    def kernel(F: T.Tensor((6,), "int32"), C: T.Tensor((7, 128), "int32"), D: T.Tensor((6, 128), "int32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), "int32")
            T.clear(s)
            for k in range(6):
                for i in T.Parallel(128):
                    C[k, i] = s[(i + 37) % 128]
                for i in T.Parallel(128):
                    s[i] = i * k + 1
                if F[k] == 1:
                    continue
                if F[k] == 2:
                    break
                for i in T.Parallel(128):
                    D[k, i] = s[127 - i]
            for i in T.Parallel(128):
                C[6, i] = s[(i + 41) % 128]

    empty = np.zeros((7, 128), np.int32)
    same(kernel, np.array(flags, np.int32), empty, empty[:6])


def test_a_while_reads_what_its_body_reduced() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5, 24), "float32"), B: T.Tensor((5, 24), "float32")):
        with T.Kernel(5, threads=24) as b:
            s = T.alloc_shared((24,), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(A[b, 0:24], s)
            T.reduce_max(s, most, dim=0)
            while most[0] > 1.0:
                for i in T.Parallel(24):
                    s[i] = s[i] * 0.5
                T.reduce_max(s, most, dim=0)
            T.copy(s, B[b, 0:24])

    rows = np.random.default_rng(3).integers(1, 90, (5, 24)).astype(np.float32)
    same(kernel, rows, np.full_like(rows, np.nan))


def test_tiles_of_one_column() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1, 72), "float32"), B: T.Tensor((72, 1), "float32")):
        with T.Kernel(1, threads=3):
            row = T.alloc_shared((1, 72), "float32")
            column = T.alloc_shared((72, 1), "float32")
            T.copy(A, row)
            T.transpose(row, column)
            T.copy(column, B)

    row = np.arange(72, dtype=np.float32)[None]
    same(kernel, row, np.full_like(row.T, np.nan))


def test_floats_that_no_integer_holds() -> None:
    dtypes = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    values = [0.0, -0.0, 0.9, -0.9, 127.9, 128.0, -128.9, -129.0, 255.5, 65504.0, 1e30, -1e30]
    floats = np.array([*values, np.inf, -np.inf, np.nan, 2.0**31], np.float32)

    @T.prim_func
    def kernel(
        A: T.Tensor((16,), "float32"),
        B: T.Tensor((16,), "int8"),
        C: T.Tensor((16,), "uint8"),
        D: T.Tensor((16,), "int16"),
        E: T.Tensor((16,), "uint16"),
        F: T.Tensor((16,), "int32"),
        G: T.Tensor((16,), "uint32"),
        H: T.Tensor((16,), "int64"),
        J: T.Tensor((16,), "uint64"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = T.cast(A[i], "int8")
                C[i] = T.cast(A[i], "uint8")
                D[i] = T.cast(A[i], "int16")
                E[i] = T.cast(A[i], "uint16")
                F[i] = T.cast(T.cast(A[i], "float16"), "int32")
                G[i] = T.cast(A[i], "uint32")
                H[i] = T.cast(A[i], "int64")
                J[i] = T.cast(T.cast(A[i], "float64"), "uint64")

    same(kernel, floats, *(np.full(16, 77, dtype) for dtype in dtypes))
