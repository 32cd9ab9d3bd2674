"""Schedules written by hand: the interpreter and the emulated device against numpy, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import TileError
from tile_core.errors.device import DescriptorError
from tile_core.errors.emulator import EmulatedDeadlockError, EmulatedRaceError, EmulatedUnwrittenError
from tile_core.errors.interpreter import BarrierMisuseError, DivergentCollectiveError
from tile_core.errors.layouts import DivergentBarrierError
from tile_core.errors.ops import CopyShapeError, OpArgumentError, OpDTypeError
from tile_core.errors.passes import MissingLoweringError
from tile_cuda.target import detect

Kernel = Callable[..., None]
DIVERGENT = (DivergentCollectiveError, DivergentBarrierError)
SM_90 = {"kind": "cuda", "arch": "sm_90"}


_found = detect()
_GPU = (pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason))


@pytest.fixture(
    params=["interpret", pytest.param("emulate", marks=pytest.mark.emulate), pytest.param("gpu", marks=_GPU)]
)
def compiled(request: pytest.FixtureRequest, on_gpu: Any) -> Callable[[Any], Kernel]:
    """From a program to a kernel on arrays of the host: interpreted, emulated with checks, or on a GPU."""
    if request.param == "interpret":
        return lambda program: tl.compile(program, target="interpret")
    if request.param == "gpu":
        return lambda program: lambda *arrays: _copy_back(on_gpu(program, *arrays), arrays)
    configs = {"tile.emulate_check": True}
    return lambda program: tl.compile(program, target=SM_90, execution="emulate", pass_configs=configs)


def _copy_back(found: Sequence[np.ndarray], arrays: Sequence[np.ndarray]) -> None:
    for array, result in zip(arrays, found, strict=True):
        array[...] = result


def numbers(shape: tuple[int, ...], dtype: str = "float16") -> np.ndarray:
    """Small whole numbers at a multiple of 16 bytes."""
    size = int(np.prod(shape))
    room = np.empty(size * np.dtype(dtype).itemsize + 16, "uint8")
    begin = -room.ctypes.data % 16
    array = room[begin : begin + size * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    array[...] = np.random.default_rng(size).integers(-4, 5, shape)
    return array


def poisoned(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """An output of NaN at a multiple of 16 bytes."""
    array = numbers(shape, dtype)
    array[...] = np.nan
    return array


def whole_block(rows: int, columns: int) -> Any:
    """B = A, tile by tile, through the copy engine both ways; one program for the block."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), "float16"), B: T.Tensor((rows, columns), "float16")):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 32), threads=128) as (bx, by):
            tile = T.alloc_shared((32, 64), "float16")
            full = T.alloc_barrier(128)
            T.tma_copy(A[by * 32 : by * 32 + 32, bx * 64 : bx * 64 + 64], tile, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(tile, B[by * 32 : by * 32 + 32, bx * 64 : bx * 64 + 64])
            T.tma_store_wait()

    return kernel


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 128), (37, 72), (1, 8)])
def test_tiles_go_through_the_engine(compiled: Any, rows: int, columns: int) -> None:
    a, b = numbers((rows, columns)), poisoned((rows, columns), "float16")
    compiled(whole_block(rows, columns))(a, b)
    assert (a == b).all()


@pytest.mark.emulate
def test_a_tensor_that_the_engine_cannot_address_is_named() -> None:
    rows, columns = 37, 70
    kernel = tl.compile(whole_block(rows, columns), target=SM_90, execution="emulate")
    with pytest.raises(DescriptorError, match=r"A_map of kernel kernel: a stride is no multiple of 16.* stride 140"):
        kernel(numbers((rows, columns)), poisoned((rows, columns), "float16"))


def refilled(steps: int) -> Any:
    """B = the sum of A's tiles, each loaded into the same tile by the block that adds it up."""

    @T.prim_func
    def kernel(A: T.Tensor((32, steps * 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            tile = T.alloc_shared((32, 32), "float32")
            full = T.alloc_barrier(128)
            total = T.alloc_fragment((32, 32), "float32")
            T.clear(total)
            for k in T.serial(steps):
                T.tma_copy(A[0:32, k * 32 : k * 32 + 32], tile, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                for i, j in T.Parallel(32, 32):
                    total[i, j] += tile[31 - i, j]
            T.copy(total, B)

    return kernel


def test_a_tile_is_filled_again_when_all_are_done_with_it(compiled: Any) -> None:
    a, b = numbers((32, 5 * 32), "float32"), poisoned((32, 32))
    compiled(refilled(5))(a, b)
    assert (b == a.reshape(32, 5, 32).sum(1)[::-1]).all()


def ring(steps: int, stages: int, threads: int = 256) -> Any:
    """B = the sum of the tiles of A: warpgroup 0 loads, the others add up."""
    consumers = threads - 128

    @T.prim_func
    def kernel(A: T.Tensor((64, steps * 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads) as _bx:
            tiles = T.alloc_shared((stages, 64, 64), "float16")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([consumers] * stages)
            with T.ws(0):
                T.dec_max_nreg(40)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(empty[k % stages], k // stages % 2 ^ 1)
                    T.tma_copy(A[0:64, k * 64 : k * 64 + 64], tiles[k % stages, :, :], barrier=full[k % stages])
                    T.mbarrier_arrive(full[k % stages])
            with T.ws(*range(1, threads // 128)):
                T.inc_max_nreg(232)
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += tiles[k % stages, i, j]
                    T.barrier_arrive(empty[k % stages])
                T.copy(total, B)

    return kernel


@pytest.mark.parametrize(("steps", "stages", "threads"), [(1, 1, 256), (7, 2, 256), (6, 3, 384)])
def test_groups_of_threads_pass_stages_to_each_other(compiled: Any, steps: int, stages: int, threads: int) -> None:
    a, b = numbers((64, steps * 64)), poisoned((64, 64))
    compiled(ring(steps, stages, threads))(a, b)
    assert (b == a.reshape(64, steps, 64).astype("float32").sum(1)).all()


def product(steps: int, stages: int) -> Any:
    """C = A B by two warpgroups, each half of the rows, fed by a third; results leave through the engine."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, steps * 64), "float16"),
        B: T.Tensor((steps * 64, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=384) as _bx:
            left = T.alloc_shared((stages, 128, 64), "float16")
            right = T.alloc_shared((stages, 64, 64), "float16")
            result = T.alloc_shared((128, 64), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([256] * stages)
            with T.ws(0):
                for k in T.serial(steps):
                    T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
                    T.tma_copy(A[0:128, k * 64 : k * 64 + 64], left[k % stages, :, :], barrier=full[k % stages])
                    T.tma_copy(B[k * 64 : k * 64 + 64, 0:64], right[k % stages, :, :], barrier=full[k % stages])
                    T.barrier_arrive(full[k % stages])
            with T.ws(1, 2):
                total = T.alloc_fragment((128, 64), "float32")
                T.clear(total)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    T.gemm(left[k % stages, :, :], right[k % stages, :, :], total)
                    T.barrier_arrive(empty[k % stages])
                T.copy(total, result)
                T.tma_copy(result, C)
                T.tma_store_wait(0)

    return kernel


def test_a_product_is_fed_by_another_group(compiled: Any) -> None:
    a, b, c = numbers((128, 192)), numbers((192, 64)), poisoned((128, 64))
    compiled(product(3, 2))(a, b, c)
    assert (c == a.astype("float32") @ b.astype("float32")).all()


def softmax_parts(rows: int) -> Any:
    """Two groups reduce halves of the rows, each for itself, and hand results on through shared memory."""

    @T.prim_func
    def kernel(A: T.Tensor((2 * rows, 96), "float32"), B: T.Tensor((2 * rows,), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            sums = T.alloc_shared((2 * rows,), "float32")
            done = T.alloc_barrier(128)
            with T.ws(0):
                x = T.alloc_fragment((rows, 96), "float32")
                total = T.alloc_fragment((rows,), "float32")
                T.copy(A[0:rows, 0:96], x)
                T.reduce_sum(x, total, dim=1)
                T.copy(total, sums[0:rows])
                T.barrier_arrive(done)
            with T.ws(1):
                y = T.alloc_fragment((rows, 96), "float32")
                largest = T.alloc_fragment((rows,), "float32")
                T.copy(A[rows : 2 * rows, 0:96], y)
                T.reduce_max(y, largest, dim=1)
                T.copy(largest, sums[rows : 2 * rows])
                T.barrier_wait(done, 0)
                for i in T.Parallel(2 * rows):
                    B[i] = sums[i]

    return kernel


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_groups_reduce_for_themselves(compiled: Any, rows: int) -> None:
    a, b = numbers((2 * rows, 96), "float32"), poisoned((2 * rows,))
    compiled(softmax_parts(rows))(a, b)
    assert (b == np.concatenate([a[:rows].sum(1), a[rows:].max(1)])).all()


def around() -> Any:
    """What the block does before and after its groups, and a fragment that a group and the block use."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            tile = T.alloc_shared((64, 32), "float32")
            x = T.alloc_fragment((64, 32), "float32")
            T.copy(A, tile)
            with T.ws(1):
                T.copy(tile, x)
                for i, j in T.Parallel(64, 32):
                    x[i, j] = x[i, j] * 2
            T.copy(x, B)

    return kernel


def test_the_block_meets_its_groups(compiled: Any) -> None:
    a, b = numbers((64, 32), "float32"), poisoned((64, 32))
    compiled(around())(a, b)
    assert (b == 2 * a).all()


def by_thread() -> Any:
    """One thread arrives for its group; another group adds its own index."""

    @T.prim_func
    def kernel(B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=256) as _bx:
            tx = T.get_thread_binding()
            word = T.alloc_shared((1,), "int32")
            ready = T.alloc_barrier(1)
            with T.ws(0):
                if tx == 0:
                    word[0] = 7
                    T.mbarrier_arrive(ready)
            with T.ws(1):
                T.mbarrier_wait_parity(ready, 0)
                B[tx - 128] = word[0] + tx

    return kernel


def test_threads_told_apart_arrive_for_themselves(compiled: Any) -> None:
    b = np.full(128, -1, "int32")
    compiled(by_thread())(b)
    assert (b == 7 + 128 + np.arange(128)).all()


def mistaken(*, wait: bool = True, parity: int = 0, arrivals: int = 128) -> Any:
    """A load whose wait can be left out or wrong."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float16"), B: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128) as _bx:
            tile = T.alloc_shared((32, 64), "float16")
            full = T.alloc_barrier(arrivals)
            T.tma_copy(A, tile, barrier=full)
            T.barrier_arrive(full)
            if wait:
                T.barrier_wait(full, parity)
            T.copy(tile, B)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"wait": False}, (EmulatedRaceError, EmulatedUnwrittenError), r"reads tile\["),
        ({"parity": 1}, (EmulatedRaceError, EmulatedUnwrittenError), r"reads tile\["),
        ({"arrivals": 129}, EmulatedDeadlockError, r"the phase of parity 0 of full\[0\].* misses 1 of 129 arrivals"),
    ],
)
def test_mistakes_are_found_on_the_emulated_device(
    arguments: dict[str, Any], kind: type[TileError], message: str
) -> None:
    configs = {"tile.emulate_check": True}
    kernel = tl.compile(mistaken(**arguments), target=SM_90, execution="emulate", pass_configs=configs)
    with pytest.raises(kind, match=message) as raised:
        kernel(numbers((32, 64)), poisoned((32, 64), "float16"))
    assert raised.value.span is not None
    assert raised.value.span.file == __file__


def test_the_interpreter_finds_waits_that_never_end() -> None:
    kernel = tl.compile(mistaken(arrivals=129), target="interpret")
    with pytest.raises(BarrierMisuseError, match="misses 1 of 129 arrivals and 0 bytes, and nothing else runs"):
        kernel(numbers((32, 64)), poisoned((32, 64), "float16"))


def test_groups_that_wait_for_each_other_are_found() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            one, two = T.alloc_barrier(128), T.alloc_barrier(128)
            with T.ws(0):
                T.barrier_wait(one, 0)
                T.barrier_arrive(two)
            with T.ws(1):
                T.barrier_wait(two, 0)
                T.barrier_arrive(one)
            A[0] = 1.0

    interpreted = tl.compile(kernel, target="interpret")
    with pytest.raises(BarrierMisuseError, match="every group of threads waits: .* of one .*; .* of two "):
        interpreted(np.zeros(1, "float32"))


def refused(body: Callable[[Any, Any, Any, Any], None]) -> None:
    """Trace `body(A, tile, full, fragment)` in a kernel of 256 threads."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256) as _bx:
            tile = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier([1, 1])
            fragment = T.alloc_fragment((64, 64), "float16")
            body(A, tile, full, fragment)


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (lambda A, tile, full, _f: T.tma_copy(A, tile, barrier=full), OpArgumentError, "holds several barriers"),
        (lambda A, tile, _full, _f: T.tma_copy(A, tile), OpArgumentError, "without a barrier"),
        (lambda A, tile, full, _f: T.tma_copy(tile, A, barrier=full[0]), OpArgumentError, "a store has no barrier"),
        (lambda A, _t, full, f: T.tma_copy(A, f, barrier=full[0]), OpArgumentError, "global to local.fragment"),
        (lambda A, t, full, _f: T.tma_copy(A[0:32, 0:64], t, barrier=full[0]), CopyShapeError, "does not fit"),
        (lambda A, t, full, _f: T.tma_copy(A, t, barrier=full[0], cluster_mask=3), OpArgumentError, "of the cluster"),
        (lambda A, t, full, _f: T.tma_copy(A, t, barrier=full[0], cluster_mask=0), OpArgumentError, "cluster_mask=0"),
        (lambda A, tile, _full, _f: T.barrier_arrive(tile), OpArgumentError, "tile is no barrier"),
        (lambda A, _t, full, _f: T.barrier_wait(full[0], 0.5), OpDTypeError, "parity of float"),
        (lambda A, _t, full, _f: T.mbarrier_arrive(full[0], 1), OpArgumentError, "no barrier of the cluster"),
        (lambda *_: T.set_max_nreg(30, 1), OpArgumentError, "30 registers"),
        (lambda *_: T.tma_store_wait(-1), OpArgumentError, "all but -1"),
        (lambda *_: T.ws(), OpArgumentError, "give the numbers"),
        (lambda *_: T.ws(2), OpArgumentError, "in a block of 256 threads"),
        (lambda *_: T.ws(0, 2), OpArgumentError, "no neighbours"),
    ],
)
def test_misuse_is_refused_while_tracing(body: Any, kind: type[TileError], why: str) -> None:
    with pytest.raises(kind, match=why):
        refused(body)


@pytest.mark.parametrize("columns", [60, 520])
def test_tiles_that_the_engine_does_not_move_are_refused(columns: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, columns), "float16"), B: T.Tensor((8, columns), "float16")):
        with T.Kernel(1, threads=128) as _bx:
            tile = T.alloc_shared((8, columns), "float16")
            T.copy(A, tile)
            T.tma_copy(tile, B)
            T.tma_store_wait()

    with pytest.raises(OpArgumentError, match="rows are multiples of 16 bytes"):
        tl.compile(kernel, target=SM_90, execution="emulate")


def test_older_architectures_are_refused() -> None:
    with pytest.raises(MissingLoweringError, match="not in this architecture"):
        tl.compile(ring(2, 2), target={"kind": "cuda", "arch": "sm_80"}, execution="emulate")


@pytest.mark.compile
def test_hand_written_schedules_compile() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(product(3, 2), target=SM_90).get_kernel_source()
    for word in ("wgmma.mma_async", "cp.async.bulk.tensor.2d", "mbarrier.try_wait", "bar.sync", "fence.proxy.async"):
        assert word in source


def by_condition(how: str) -> Any:
    """The ring of stages with roles by conditions on the thread index instead of `T.ws`."""
    steps, stages = 5, 2

    @T.prim_func
    def kernel(A: T.Tensor((64, steps * 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            tx = T.get_thread_binding()
            tiles = T.alloc_shared((stages, 64, 64), "float16")
            full = T.alloc_barrier([128 if how == "groups" else 1] * stages)
            empty = T.alloc_barrier([128] * stages)
            total = T.alloc_fragment((64, 64), "float32")
            group = tx // 128
            if group == 0:
                if how == "groups" or tx == 37:
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(empty[k % stages], k // stages % 2 ^ 1)
                        T.tma_copy(A[0:64, k * 64 : k * 64 + 64], tiles[k % stages, :, :], barrier=full[k % stages])
                        T.mbarrier_arrive(full[k % stages])
            else:
                T.clear(total)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += tiles[k % stages, i, j]
                    T.barrier_arrive(empty[k % stages])
                T.copy(total, B)

    return kernel


@pytest.mark.parametrize("how", ["groups", "one thread"])
def test_conditions_on_whole_warps_are_groups(compiled: Any, how: str) -> None:
    a, b = numbers((64, 320)), poisoned((64, 64))
    compiled(by_condition(how))(a, b)
    assert (b == a.reshape(64, 5, 64).astype("float32").sum(1)).all()


def divided(condition: Callable[[Any], Any]) -> Any:
    """B = A by the threads for which a condition holds, and B = -A by the others."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            tx = T.get_thread_binding()
            if condition(tx):
                T.copy(A, B[0, :, :])
            else:
                for i, j in T.Parallel(64, 64):
                    B[1, i, j] = -A[i, j]

    return kernel


@pytest.mark.parametrize(
    "condition",
    [
        lambda tx: tx < 128,
        lambda tx: tx >= 64,
        lambda tx: tx // 32 < 3,
        lambda tx: T.get_warp_group_idx() == 1,
    ],
)
def test_a_condition_divides_the_block(compiled: Any, condition: Any) -> None:
    a, b = numbers((64, 64), "float32"), poisoned((2, 64, 64))
    compiled(divided(condition))(a, b)
    assert (b[0] == a).all()
    assert (b[1] == -a).all()


@pytest.mark.parametrize("condition", [lambda tx: tx % 2 == 0, lambda tx: tx < 100, lambda tx: tx == 0])
def test_tiles_of_a_part_of_a_warp_are_refused(compiled: Any, condition: Any) -> None:
    with pytest.raises(DIVERGENT, match="no neighbouring whole warps") as raised:
        compiled(divided(condition))(numbers((64, 64), "float32"), poisoned((2, 64, 64)))
    assert raised.value.span is not None


def test_groups_inside_of_groups_are_refused(compiled: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            tx = T.get_thread_binding()
            with T.ws(0):
                T.copy(A, B)
                if tx < 64:
                    T.copy(A, B)

    with pytest.raises(DIVERGENT, match="a part of a group"):
        compiled(kernel)(numbers((64, 64), "float32"), poisoned((64, 64)))


def test_a_variable_that_differs_between_threads_divides_no_block(compiled: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _bx:
            mine = T.alloc_var("int32", 0)
            mine = T.get_thread_binding() % 7
            if mine < 3:
                T.copy(A, B)

    with pytest.raises(DIVERGENT, match="differs between threads"):
        compiled(kernel)(numbers((64, 64), "float32"), poisoned((64, 64)))
