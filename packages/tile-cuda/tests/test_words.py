"""Loads and stores of whole words: any element, predicates, vectors taken apart; interpreted, emulated and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import EmulatedBoundsError, OpArgumentError, OpDTypeError, OutOfBoundsAccessError

N = 256
LOADS = {32: T.ldg32, 64: T.ldg64, 128: T.ldg128, 256: T.ldg256}
WORDS = {32: "unsigned int", 64: "uint2", 128: "uint4", 256: "tile_words"}
STORES = {32: T.stg32, 64: T.stg64, 128: T.stg128, 256: T.stg256}


def copy(bits: int, dtype: str) -> Any:
    """One thread moves `bits` bits, two rows a block."""
    step = bits // np.dtype(dtype).itemsize // 8

    @T.prim_func
    def kernel(A: T.Tensor((2, N), dtype), B: T.Tensor((2, N), dtype)):
        with T.Kernel(2, threads=N // step) as row:
            t = T.get_thread_binding()
            STORES[bits](B[row, t * step], LOADS[bits](A[row, t * step]))

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float16", "int8", "float32", "int32"])
@pytest.mark.parametrize("bits", LOADS)
def test_copies_of_any_element(bits: int, dtype: str, agree: Any) -> None:
    values = np.arange(2 * N).reshape(2, N).astype(dtype)
    _, found = agree(copy(bits, dtype), values, np.zeros((2, N), dtype))
    np.testing.assert_array_equal(found, values)


@pytest.mark.emulate
def test_a_load_that_is_switched_off_gives_zeros_and_touches_nothing(agree: Any) -> None:
    n = 100

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            inside = t * 4 < n
            value = T.ldg128(A[t * 4], pred=inside)
            T.stg128(B[t * 4], value, pred=inside)
            T.stg32(B[3], T.extract_lane(value, 0), pred=t == 40)

    values = np.arange(1, n + 1, dtype="float32")
    _, found = agree(kernel, values, np.full(n, 7, "float32"))
    values[3] = 0
    np.testing.assert_array_equal(found, values)


@pytest.mark.emulate
def test_lanes_are_taken_out_and_put_together(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N // 8):
            t = T.get_thread_binding()
            low, high = T.ldg128(A[t * 8]), T.ldg128(A[t * 8 + 4])
            lanes = [T.extract_lane(v, lane) for v in (high, low) for lane in (3, 2, 1, 0)]
            T.stg256(B[t * 8], T.uint32x8(*lanes))
            pair = T.ldg64(B[t * 8])
            T.stg64(B[t * 8], T.uint32x2(T.extract_lane(pair, 0) + 1, T.extract_lane(pair, 1)))
            T.stg128(B[t * 8 + 4], T.Broadcast(T.extract_lane(T.ldg256(A[t * 8]), 7), 4))

    values = np.arange(N, dtype="int32")
    _, found = agree(kernel, values, np.zeros(N, "int32"))
    rows = values.reshape(-1, 8)[:, ::-1].copy()
    rows[:, 0] += 1
    rows[:, 4:] = values.reshape(-1, 8)[:, 7:]
    np.testing.assert_array_equal(found.reshape(-1, 8), rows)


@pytest.mark.emulate
def test_through_shared_memory(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float16"), B: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=N // 8):
            t = T.get_thread_binding()
            tile = T.alloc_shared((N,), "float16")
            T.sts128(tile[t * 8], T.ldg128(A[t * 8]))
            T.sync_threads()
            T.stg128(B[t * 8], T.lds128(tile[N - 8 - t * 8]))
            T.sync_threads()
            T.sts32(tile[t * 8], T.lds32(tile[t * 8 + 2]))
            T.sts64(tile[t * 8 + 4], T.lds64(tile[t * 8]))
            T.stg32(B[t * 8], T.lds32(tile[t * 8 + 4]))

    values = np.arange(N).astype("float16")
    _, found = agree(kernel, values, np.zeros(N, "float16"))
    rows = values.reshape(-1, 8)[::-1].copy()
    rows[:, :2] = values.reshape(-1, 8)[:, 2:4]
    np.testing.assert_array_equal(found.reshape(-1, 8), rows)


@pytest.mark.emulate
def test_words_beyond_a_tensor_are_zeros_and_not_written(agree: Any) -> None:
    n = 253

    @T.prim_func
    def kernel(A: T.Tensor((2, n), "int8"), B: T.Tensor((2, n), "int8"), C: T.Tensor((256,), "int8")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.stg32(B[0, t * 4], T.ldg32(A[0, t * 4]))
            T.stg32(C[t * 4], T.ldg32(A[0, t * 4]))

    _, found, padded = agree(kernel, np.ones((2, n), "int8"), np.full((2, n), 7, "int8"), np.full(256, 7, "int8"))
    assert (found[0, :252] == 1).all()
    assert (found[0, 252:] == 7).all()
    assert (found[1] == 7).all()
    np.testing.assert_array_equal(padded, [1] * 252 + [0] * 4)


@pytest.mark.emulate
def test_words_beyond_a_tile_are_an_error() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            tile = T.alloc_shared((64,), "int8")
            tile[t] = 1
            T.sync_threads()
            B[t] = T.lds32(tile[t // 4 * 4 + 4])

    out = np.zeros(64, "uint32")
    with pytest.raises(OutOfBoundsAccessError, match=r"tile\[67\]"):
        tl.compile(kernel, target="interpret")(out)
    checked: Any = {"execution": "emulate", "pass_configs": {"tile.emulate_check": True}}
    with pytest.raises(EmulatedBoundsError, match=r"tile\[64:68\]"):
        tl.compile(kernel, target="cuda", **checked)(out)


def test_refusals() -> None:
    def traced(body: Any, dtype: str = "float32") -> None:
        @T.prim_func
        def kernel(A: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared((N,), dtype)
                body(A, tile)

    for body, words in (
        (lambda A, tile: T.ldg32(tile), "shared.dyn memory"),
        (lambda A, tile: T.sts128(A, T.uint32x4(1, 2, 3, 4)), "global memory"),
        (lambda A, tile: T.ldg32(3), "is no buffer"),
    ):
        with pytest.raises(OpArgumentError, match=words):
            traced(body)
    with pytest.raises(OpDTypeError, match="elements of 8 to 32 bits"):
        traced(lambda A, tile: T.ldg32(A), "float64")
    with pytest.raises(OpDTypeError, match="it needs uint32x4"):
        traced(lambda A, tile: T.stg128(A, T.ldg64(A)))


@pytest.mark.compile
def test_they_compile(build: Any) -> None:
    for bits, word in WORDS.items():
        for dtype in ("float16", "float32"):
            _helpers, kernel = build(copy(bits, dtype)).split("__global__")
            assert kernel.count(f"*reinterpret_cast<const {word}*>(&A[") == 1
            assert kernel.count(f"*reinterpret_cast<{word}*>(&B[") == 1
            assert kernel.count("A[") == kernel.count("B[") == 1
