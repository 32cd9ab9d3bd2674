"""What the threads of a warp and a block do together: printed, emulated and interpreted alike, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import EmulatedDeadlockError, NoReferenceMeaningError, OpArgumentError, ParallelNestError

N = 80
LANES = np.arange(N)
FLOATS = np.random.default_rng(0).standard_normal(N).astype("float32")
FLOATS[3], FLOATS[40], FLOATS[41] = np.nan, np.inf, -0.0
INTS = np.random.default_rng(1).integers(-4, 4, N).astype("int32")


def per_thread(dtype: str, body: Any, threads: Any = N, source: str = "int32") -> Any:
    """`B[t] = body(A[t], t)` with one thread an element."""

    @T.prim_func
    def kernel(A: T.Tensor((N,), source), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=threads):
            x, y, z = T.get_thread_bindings()
            t = (z * T.get_thread_extent(1) + y) * T.get_thread_extent(0) + x
            B[t] = body(A[t], t)

    return kernel


def warps(values: np.ndarray) -> list[np.ndarray]:
    return np.split(values, range(32, N, 32))


def in_groups(source: Any, width: int) -> np.ndarray:
    """Where each thread of a full warp reads, by `source(lane, first of the group)`."""
    return np.array([t - t % 32 + source(t % 32, t % 32 // width * width) for t in range(64)])


SHUFFLES = {
    "sync": (lambda v: T.shfl_sync(v, 5, width=8), lambda lane, first: first + 5, 8),
    "negative": (lambda v: T.shfl_sync(v, -1, width=16), lambda lane, first: first + 15, 16),
    "xor": (lambda v: T.shfl_xor(v, 16), lambda lane, first: lane ^ 16, 32),
    "xor_in_groups": (
        lambda v: T.shfl_xor(v, 12, width=8),
        lambda lane, first: lane if (lane ^ 12) > first + 7 else lane ^ 12,
        8,
    ),
    "up": (lambda v: T.shfl_up(v, 3), lambda lane, first: lane if lane < 3 else lane - 3, 32),
    "down": (
        lambda v: T.shfl_down(v, 2, width=4),
        lambda lane, first: lane if lane + 2 > first + 3 else lane + 2,
        4,
    ),
}


@pytest.mark.emulate
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "int8"])
def test_shuffles(name: str, dtype: str, agree: Any) -> None:
    function, source, width = SHUFFLES[name]
    values = (LANES * 3 - 100).astype(dtype)

    @T.prim_func
    def kernel(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[t] = function(A[t])

    _, found = agree(kernel, values[:64], np.zeros(64, dtype))
    np.testing.assert_array_equal(found, values[:64][in_groups(source, width)])


REDUCTIONS = {
    "sum": (T.warp_reduce_sum, np.sum),
    "max": (T.warp_reduce_max, np.max),
    "min": (T.warp_reduce_min, np.min),
    "bitand": (T.warp_reduce_bitand, np.bitwise_and.reduce),
    "bitor": (T.warp_reduce_bitor, np.bitwise_or.reduce),
}


@pytest.mark.emulate
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("threads", [80, (20, 2, 2)])
def test_reductions_of_integers_also_where_the_last_warp_is_short(name: str, threads: Any, agree: Any) -> None:
    function, expected = REDUCTIONS[name]
    _, found = agree(per_thread("int32", lambda v, _t: function(v), threads), INTS, np.zeros(N, "int32"))
    np.testing.assert_array_equal(found, np.concatenate([np.full(len(w), expected(w)) for w in warps(INTS)]))


@pytest.mark.emulate
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_of_floats_propagate_nan_and_infinity(name: str, agree: Any) -> None:
    function, expected = REDUCTIONS[name]
    kernel = per_thread("float32", lambda v, _t: function(v), source="float32")
    _, found = agree(kernel, FLOATS, np.zeros(N, "float32"))
    np.testing.assert_allclose(found, np.concatenate([np.full(len(w), expected(w)) for w in warps(FLOATS)]), rtol=1e-5)


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_integers_wrap(dtype: str, agree: Any) -> None:
    """Those of a warp, also where the last is short."""

    kernel = per_thread(dtype, lambda v, _t: T.warp_reduce_sum(v), source=dtype)
    limits = np.iinfo(dtype)
    for edge in (limits.max, limits.min):
        values = edge ^ np.abs(INTS).astype(dtype)
        _, found = agree(kernel, values, np.zeros(N, dtype))
        expected = [np.full(len(part), part.sum(dtype=dtype)) for part in warps(values)]
        np.testing.assert_array_equal(found, np.concatenate(expected))


VOTES = {
    "any": ("bool", lambda v, t: T.any_sync(v > 2), lambda w: np.any(w > 2)),
    "all": ("bool", lambda v, t: T.all_sync(v > -4), lambda w: np.all(w > -4)),
    "ballot": ("uint64", lambda v, t: T.ballot(v > 0), lambda w: sum(1 << i for i, v in enumerate(w) if v > 0)),
    "activemask": ("uint64", lambda v, t: T.activemask(), lambda w: (1 << len(w)) - 1),
}


@pytest.mark.emulate
@pytest.mark.parametrize("name", VOTES)
def test_votes(name: str, agree: Any) -> None:
    dtype, function, expected = VOTES[name]
    _, found = agree(per_thread(dtype, function), INTS, np.zeros(N, dtype))
    np.testing.assert_array_equal(found, np.concatenate([np.full(len(w), expected(w)) for w in warps(INTS)]))


@pytest.mark.emulate
def test_votes_of_the_block(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[0] = T.syncthreads_count(A[t] > 0)
            B[1] = T.cast(T.syncthreads_or(A[t] == 3), "int32")
            B[2] = T.cast(T.syncthreads_and(A[t] < 3), "int32")

    _, found = agree(kernel, INTS, np.full(3, -1, "int32"))
    assert found.tolist() == [(INTS > 0).sum(), int((INTS == 3).any()), int((INTS < 3).all())]


@pytest.mark.emulate
def test_a_loop_may_end_where_the_block_agrees(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            left = T.alloc_var("int32", init=0)
            rounds = T.alloc_var("int32", init=0)
            left = A[t]
            for _ in range(100):
                if T.syncthreads_and(left <= 0):
                    T.loop_break()
                left = left - 1
                rounds = rounds + 1
            B[t] = rounds

    _, found = agree(kernel, INTS, np.zeros(N, "int32"))
    assert (found == INTS.max()).all()


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16", "uint8", "bool"])
def test_matches_compare_bits(dtype: str, agree: Any) -> None:
    values = np.array([0, 1, 2, 1] * 8).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[:4] = [np.nan, -0.0, 0.0, np.nan]

    @T.prim_func
    def kernel(A: T.Tensor((32,), dtype), B: T.Tensor((32,), "uint32"), C: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            B[t] = T.match_any_sync(A[t])
            C[t] = T.match_all_sync(A[t // 32 + 5])

    _, found, agreed = agree(kernel, values, np.zeros(32, "uint32"), np.zeros(32, "uint32"))
    bits = values.view(f"u{values.itemsize}")
    np.testing.assert_array_equal(found, [sum(1 << i for i in range(32) if bits[i] == bit) for bit in bits])
    assert (agreed == 0xFFFFFFFF).all()


@pytest.mark.emulate
@pytest.mark.parametrize("threads", [80, (20, 2, 2)])
def test_where_a_thread_is(threads: Any, agree: Any) -> None:
    def place(_v: Any, _t: Any) -> Any:
        group = T.get_warp_group_idx(16, 2)
        return (
            T.get_lane_idx()
            + T.get_warp_idx() * 100
            + T.get_warp_idx_sync() * 10_000
            + group * 1_000_000
            + T.cast(T.shuffle_elect(16), "int32") * 10_000_000
            + T.cast(T.shuffle_elect(0), "int32") * 100_000_000
        )

    _, found = agree(per_thread("int32", place, threads), INTS, np.zeros(N, "int32"))
    expected = LANES % 32 + LANES // 32 * 10_100 + LANES // 32 * 1_000_000
    expected += (LANES % 16 == 0) * 10_000_000 + (LANES == 0) * 100_000_000
    np.testing.assert_array_equal(found, expected)


def halves() -> Any:
    """The upper half of the block hands values to the lower one through a named barrier."""

    @T.prim_func
    def kernel(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            tile = T.alloc_shared((64,), "int32")
            if t >= 64:
                tile[t - 64] = A[t]
                T.named_barrier_arrive(1, 128)
            else:
                T.sync_threads(1, 128)
                B[t] = tile[63 - t]

    return kernel


@pytest.mark.emulate
def test_a_named_barrier_counts_who_arrives_and_who_waits(on_gpu: Any) -> None:
    a, b = np.arange(128, dtype="int32"), np.full(128, -1, "int32")
    options = {"execution": "emulate", "pass_configs": {"tile.emulate_check": True}}
    tl.compile(halves(), target="cuda", **options)(a, b)
    np.testing.assert_array_equal(b[:64], a[64:][::-1])
    native = on_gpu(halves(), a, np.full(128, -1, "int32"))
    np.testing.assert_array_equal(b if native is None else native[1], b)
    with pytest.raises(NoReferenceMeaningError, match="named_barrier_arrive"):
        tl.compile(halves(), target="interpret")


@pytest.mark.emulate
def test_an_exchange_that_some_lanes_miss_does_not_hang() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            if t < 7:
                A[t] = T.shfl_sync(A[t], 0)
            T.sync_threads()

    with pytest.raises(EmulatedDeadlockError, match="lanes of its warp"):
        tl.compile(kernel, target="cuda", execution="emulate")(np.zeros(32, "int32"))


@pytest.mark.emulate
def test_atomic_loads_and_stores(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float16"), B: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            T.atomic_store(B[t], T.atomic_load(A[t]), memory_order="relaxed")

    _, found = agree(kernel, FLOATS.astype("float16"), np.zeros(N, "float16"))
    np.testing.assert_array_equal(found, FLOATS.astype("float16"))


@pytest.mark.emulate
def test_bits(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int64"), B: T.Tensor((N, 4), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0] = T.cast(T.popcount(A[t]), "int32")
            B[t, 1] = T.clz(A[t])
            B[t, 2] = T.popcount(T.cast(A[t], "int32"))
            B[t, 3] = T.clz(T.cast(A[t], "int32"))

    values = np.array([0, 1, -1, 1 << 40, *range(2, N - 2)], "int64")
    _, found = agree(kernel, values, np.zeros((N, 4), "int32"))
    low = values.astype("int32")
    expected = [(int(v) & (1 << 64) - 1, int(w) & (1 << 32) - 1) for v, w in zip(values, low, strict=True)]
    rows = [[v.bit_count(), 64 - v.bit_length(), w.bit_count(), 32 - w.bit_length()] for v, w in expected]
    np.testing.assert_array_equal(found, rows)


@pytest.mark.compile
def test_everything_compiles(build: Any) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((N,), "float32"),
        H: T.Tensor((N,), "float16"),
        B: T.Tensor((N,), "float32"),
        C: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            for function, _source, _width in SHUFFLES.values():
                B[t] = function(A[t])
                H[t] = function(H[t])
            for name in ("sum", "max", "min"):
                B[t] = REDUCTIONS[name][0](A[t])
                H[t] = REDUCTIONS[name][0](H[t])
            for name in ("sum", "bitand", "bitor"):
                C[t] = REDUCTIONS[name][0](C[t])
            for _dtype, vote, _expected in VOTES.values():
                C[t] = T.cast(vote(C[t], t), "int32")
            C[t] = T.cast(T.match_any_sync(A[t]) + T.match_all_sync(H[t], 0xFFFF), "int32")
            C[t] = T.syncthreads_count(A[t] > 0) + T.popcount(C[t]) + T.clz(C[t])
            T.sync_warp()
            T.sync_threads(2, 64)
            T.named_barrier_arrive(3, 64)
            T.atomic_store(H[t], T.atomic_load(H[t]))
            C[t] = T.get_warp_idx_sync()
            B[t] = T.exp10(A[t])

    source = build(kernel)
    assert "__shfl_xor_sync(0xffffffffu, " in source
    assert "bar.sync" in source


def test_refusals() -> None:
    def traced(body: Any) -> Any:
        @T.prim_func
        def kernel(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                body(A)

        return kernel

    for body, words in (
        (lambda A: T.shfl_xor(A[0], 1, width=5), "width=5"),
        (lambda A: T.sync_threads(16), "barrier_id=16"),
        (lambda A: T.named_barrier_arrive(1, 0), "arrive_count=0"),
        (lambda A: T.sync_threads(arrive_count=32), "without barrier_id"),
        (lambda A: T.get_lane_idx(0), "warp_size=0"),
        (lambda A: T.get_warp_group_idx(warps_per_group=2), "without warp_size"),
        (lambda A: T.shuffle_elect(-1), "thread_extent=-1"),
    ):
        with pytest.raises(OpArgumentError, match=words):
            traced(body)


def test_an_exchange_in_a_parallel_loop_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = T.shfl_xor(A[i], 1)

    with pytest.raises(ParallelNestError, match="shfl_xor stands inside of T.Parallel"):
        tl.compile(kernel, target="cuda", execution="emulate")
