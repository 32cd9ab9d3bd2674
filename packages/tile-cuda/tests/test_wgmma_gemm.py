"""Products that the author waits for: right where the waits are, found where one is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedRaceError, EmulatedUnwrittenError
from tile_core.errors.ops import AnnotationError, OpArgumentError, OpDTypeError
from tile_core.errors.passes import MissingLoweringError
from tile_cuda.target import detect

SM_90 = {"kind": "cuda", "arch": "sm_90"}
CHECKED = {"tile.emulate_check": True}
Kernel = Callable[..., None]
_found = detect()
_GPU = (pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason))


@pytest.fixture(
    params=["interpret", "cpu", pytest.param("emulate", marks=pytest.mark.emulate), pytest.param("gpu", marks=_GPU)]
)
def compiled(request: pytest.FixtureRequest, on_gpu: Any) -> Callable[[Any], Kernel]:
    """From a program to a kernel on arrays of the host: interpreted, on the CPU, emulated with checks, or on a GPU."""
    if request.param == "emulate":
        return lambda program: tl.compile(program, target=SM_90, execution="emulate", pass_configs=CHECKED)
    if request.param == "gpu":
        return lambda program: lambda *arrays: _copy_back(on_gpu(program, *arrays), arrays)
    return lambda program: tl.compile(program, target=request.param)


def _copy_back(found: Sequence[np.ndarray], arrays: Sequence[np.ndarray]) -> None:
    for array, result in zip(arrays, found, strict=True):
        array[...] = result


def emulated(program: Any, **configs: Any) -> Kernel:
    """The program on the emulated device."""
    return tl.compile(program, target=SM_90, execution="emulate", pass_configs=configs)


def numbers(shape: tuple[int, ...], dtype: str = "float16") -> np.ndarray:
    """Small whole numbers at a multiple of 16 bytes."""
    size = int(np.prod(shape))
    room = np.empty(size * np.dtype(dtype).itemsize + 16, "uint8")
    begin = -room.ctypes.data % 16
    array = room[begin : begin + size * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    array[...] = np.random.default_rng(size).integers(-3, 4, shape)
    return array


def poisoned(shape: tuple[int, ...]) -> np.ndarray:
    """A float32 output of NaN."""
    array = numbers(shape, "float32")
    array[...] = np.nan
    return array


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B of small whole numbers, which float32 holds."""
    return a.astype("float32") @ b.astype("float32")


def repeated(groups: int, *, waits: bool) -> Any:
    """C = 2 · 3 A B: three products of which one stays in flight while the next is issued."""
    m = 64 * groups

    @T.prim_func
    def kernel(A: T.Tensor((m, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((m, 64), "float32")):
        with T.Kernel(1, threads=128 * groups) as _bx:
            a = T.alloc_shared((m, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((m, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for _step in T.serial(3):
                T.warpgroup_arrive()
                T.wgmma_gemm(a, b, c)
                if waits:
                    T.wait_wgmma(1)
            if waits:
                T.warpgroup_wait(0)
            T.warpgroup_fence_operand(c, num_regs=32)
            for i, j in T.Parallel(m, 64):
                c[i, j] = c[i, j] * 2.0
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize("groups", [1, 2])
def test_a_product_is_there_after_its_wait(compiled: Any, groups: int) -> None:
    a, b, c = numbers((64 * groups, 64)), numbers((64, 64)), poisoned((64 * groups, 64))
    compiled(repeated(groups, waits=True))(a, b, c)
    assert (c == 6 * exact(a, b)).all()


@pytest.mark.emulate
def test_a_missing_wait_is_found() -> None:
    a, b, c = numbers((64, 64)), numbers((64, 64)), poisoned((64, 64))
    c[...] = 0
    program = repeated(1, waits=False)
    emulated(program)(a, b, c)
    assert np.isnan(c).any(), "without checks the result is not there"
    with pytest.raises(EmulatedUnwrittenError, match=r"reads c\[.*under way.*not waited for"):
        emulated(program, **CHECKED)(a, b, c)


def two_results(*, left_in_flight: int) -> Any:
    """S = A B and O = P B, of which S is used while O may still be in flight; P is a fragment."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        S: T.Tensor((64, 64), "float32"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            p = T.alloc_fragment((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, s, clear_accum=True)
            T.wait_wgmma(0)
            for i, j in T.Parallel(64, 64):
                p[i, j] = T.max(s[i, j], 0.0) / 16
            T.wgmma_gemm(a, b, s, clear_accum=True)
            T.wgmma_gemm(p, b, o, clear_accum=True)
            T.wait_wgmma(left_in_flight)
            for i, j in T.Parallel(64, 64):
                s[i, j] = s[i, j] + 1.0
            T.wait_wgmma(0)
            T.copy(s, S)
            T.copy(o, O)

    return kernel


def test_the_last_products_may_stay_in_flight(compiled: Any) -> None:
    a, b, s, o = numbers((64, 64)), numbers((64, 64)), poisoned((64, 64)), poisoned((64, 64))
    compiled(two_results(left_in_flight=1))(a, b, s, o)
    p = (np.maximum(exact(a, b), 0) / 16).astype("float16")
    assert (s == exact(a, b) + 1).all()
    np.testing.assert_allclose(o, p.astype("float64") @ b.astype("float64"), rtol=1e-4, atol=1e-3)


@pytest.mark.emulate
def test_a_wait_that_leaves_too_many_is_found() -> None:
    arrays = numbers((64, 64)), numbers((64, 64)), poisoned((64, 64)), poisoned((64, 64))
    with pytest.raises(EmulatedUnwrittenError, match=r"reads s\["):
        emulated(two_results(left_in_flight=2), **CHECKED)(*arrays)


def refilled(*, waits: bool) -> Any:
    """C = A (B + B'), whose second product reads the tile that the first one did."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.clear(c)
            for step in T.serial(2):
                T.copy(B[step, :, :], b)
                T.wgmma_gemm(a, b, c)
                if waits:
                    T.wait_wgmma(0)
            T.wait_wgmma(0)
            T.copy(c, C)

    return kernel


def test_a_tile_is_filled_again_after_the_wait(compiled: Any) -> None:
    a, b, c = numbers((64, 64)), numbers((2, 64, 64)), poisoned((64, 64))
    compiled(refilled(waits=True))(a, b, c)
    assert (c == exact(a, b[0]) + exact(a, b[1])).all()


@pytest.mark.emulate
def test_a_tile_that_is_filled_before_the_wait_is_found() -> None:
    a, b, c = numbers((64, 64)), numbers((2, 64, 64)), poisoned((64, 64))
    with pytest.raises(EmulatedRaceError, match="b"):
        emulated(refilled(waits=False), **CHECKED)(a, b, c)


@pytest.mark.emulate
def test_a_tile_of_a_product_in_flight_shares_its_bytes_with_no_other() -> None:
    """What is reduced beside the product gets shared memory of its own, though the product's tiles are read no more."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            other = T.alloc_shared((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                other[i, j] = i * 64 + j
            for i, j in T.Parallel(64, 64):
                D[i, j] = other[j, i]
            T.wait_wgmma(0)
            T.copy(c, C)

    a, b, c, d = numbers((64, 64)), numbers((64, 64)), poisoned((64, 64)), poisoned((64, 64))
    emulated(kernel, **CHECKED)(a, b, c, d)
    assert (c == exact(a, b)).all()
    assert (d == np.arange(4096).reshape(64, 64).T).all()


def fed(steps: int, stages: int) -> Any:
    """C = A B by a warpgroup that another one feeds; a stage is given back when the product behind it is done."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, steps * 64), "float16"),
        B: T.Tensor((steps * 64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=256) as _bx:
            left = T.alloc_shared((stages, 64, 64), "float16")
            right = T.alloc_shared((stages, 64, 64), "float16")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            with T.ws(0):
                for k in T.serial(steps):
                    T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
                    T.tma_copy(A[0:64, k * 64 : k * 64 + 64], left[k % stages, :, :], barrier=full[k % stages])
                    T.tma_copy(B[k * 64 : k * 64 + 64, 0:64], right[k % stages, :, :], barrier=full[k % stages])
                    T.barrier_arrive(full[k % stages])
            with T.ws(1):
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    T.wgmma_gemm(left[k % stages, :, :], right[k % stages, :, :], total)
                    T.wait_wgmma(1)
                    if k > 0:
                        T.barrier_arrive(empty[(k - 1) % stages])
                T.wait_wgmma(0)
                T.copy(total, C)

    return kernel


@pytest.mark.parametrize(("steps", "stages"), [(1, 2), (5, 2), (7, 3)])
def test_a_consumer_keeps_one_product_in_flight(
    request: pytest.FixtureRequest, compiled: Any, steps: int, stages: int
) -> None:
    if request.node.callspec.params["compiled"] == "cpu":
        pytest.skip("barriers with phases are of devices")
    a, b, c = numbers((64, steps * 64)), numbers((steps * 64, 64)), poisoned((64, 64))
    compiled(fed(steps, stages))(a, b, c)
    assert (c == exact(a, b)).all()


def pipelined(*, waits: bool) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ):
        with T.Kernel(1, threads=256) as _bx:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.wgmma_gemm(a, b, c)
                if waits:
                    T.wait_wgmma(0)
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize("waits", [True, False])
def test_the_compiler_waits_around_a_pipelined_loop(compiled: Any, waits: bool) -> None:
    a, b, c = numbers((128, 256)), numbers((256, 128)), poisoned((128, 128))
    compiled(pipelined(waits=waits))(a, b, c)
    assert (c == exact(a, b)).all()


@pytest.mark.emulate
def test_a_pipelined_loop_stays_specialised() -> None:
    assert emulated(pipelined(waits=True)).report()["specialized_warps"] == 1


REGISTERS = {
    (): (40, 232),
    (("consumer_reg_alloc", 240), ("producer_reg_dealloc", 24)): (24, 240),
    (("consumer_reg_alloc", 240),): (24, 240),
    (("producer_reg_dealloc", 56),): (56, 224),
}


def with_registers(wishes: Sequence[tuple[str, int]]) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ):
        with T.Kernel(1, threads=256) as _bx:
            for name, count in wishes:
                getattr(T, f"annotate_{name}")(count)
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize("wishes", REGISTERS)
def test_registers_of_roles_are_the_authors(build: Any, wishes: Sequence[tuple[str, int]]) -> None:
    source, (producer, consumer) = build(with_registers(wishes), ("sm_90",)), REGISTERS[wishes]
    assert f"tile_set_max_registers<{consumer}, 1>" in source
    assert f"tile_set_max_registers<{producer}, 0>" in source


def test_more_registers_than_there_are_are_refused() -> None:
    with pytest.raises(AnnotationError, match="248 of a consumer"):
        tl.compile(with_registers([("consumer_reg_alloc", 248)]), target=SM_90)
    with pytest.raises(OpArgumentError, match="30 registers of a producer"):
        with_registers([("producer_reg_dealloc", 30)])


def test_waits_and_results_are_printed_in_order(build: Any) -> None:
    source = build(two_results(left_in_flight=1), ("sm_90",))
    body = source[source.index("__global__") :]
    issued, waited = body.rindex("tile_wgmma_rs_"), body.rindex("tile_wgmma_wait_1()")
    pinned = body.index("tile_pin_f32(&s[0])", waited)
    assert issued < waited < pinned < body.index("s[", pinned + len("tile_pin_f32(&s[0])"))


def one_product(m: int = 64, n: int = 64, threads: int = 128, scope: str = "local.fragment") -> Any:
    @T.prim_func
    def kernel(C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads) as _bx:
            a = T.alloc_shared((m, 64), "float16")
            b = T.alloc_shared((64, n), "float16")
            c = T.allocate((m, n), "float32", scope)
            T.fill(a, 1.0)
            T.fill(b, 1.0)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize(
    ("arch", "shape", "why"),
    [
        ("sm_80", {}, "the architecture has no wgmma"),
        ("sm_100", {}, "the architecture has no wgmma"),
        (
            "sm_90",
            {"m": 32},
            "the tile 32 × 64 × 64 is not made of multiples of 64 × 8 × 16; the nearest is 64 × 64 × 64",
        ),
        ("sm_90", {"n": 20}, "the nearest is 64 × 24 × 64"),
        ("sm_90", {"n": 512}, "a warpgroup cannot have 64 × 512: one has multiples of 64 rows, at most 256 columns"),
        ("sm_90", {"threads": 96}, "wgmma wants multiples of 128 threads, not 96"),
        ("sm_90", {"scope": "shared"}, "wgmma wants C in a fragment"),
    ],
)
def test_a_product_that_no_warpgroup_computes_is_refused(arch: str, shape: dict[str, Any], why: str) -> None:
    with pytest.raises(MissingLoweringError, match="wgmma_gemm: no instruction of a warpgroup.*a of float16") as raised:
        tl.compile(one_product(**shape), target={"kind": "cuda", "arch": arch})
    assert why in str(raised.value)
    assert "T.gemm takes any other" in str(raised.value)
    assert raised.value.span is not None


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        (OpArgumentError, lambda f, s, x: T.wait_wgmma(8)),
        (OpArgumentError, lambda f, s, x: T.wait_wgmma(-1)),
        (OpArgumentError, lambda f, s, x: T.wait_wgmma(True)),
        (OpArgumentError, lambda f, s, x: T.warpgroup_fence_operand(s)),
        (OpArgumentError, lambda f, s, x: T.warpgroup_fence_operand(x, num_regs=9)),
        (OpArgumentError, lambda f, s, x: T.warpgroup_fence_operand(x[7], 1)),
        (OpDTypeError, lambda f, s, x: T.warpgroup_fence_operand(f, dtype="float16")),
    ],
)
def test_arguments_are_checked(kind: type[Exception], statement: Any) -> None:
    with pytest.raises(kind):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=128) as _bx:
                f = T.alloc_fragment((64, 64), "float32")
                s = T.alloc_shared((64, 64), "float32")
                x = T.alloc_local((8,), "float32")
                statement(f, s, x)
