"""Plain products on sm_100: made in tensor memory where an instruction covers them, by warps where none does.

Nothing here runs on hardware: results are those of the emulator with its checks, and printed code is compiled.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
import tile_cuda.language as C
from tile_core.errors.emulator import EmulatedCopyError, EmulatedUnwrittenError
from tile_core.errors.ops import AllocationError, OpArgumentError
from tile_core.errors.passes import MissingLoweringError
from tile_core.testing.scripts import load_script

SM_100 = {"kind": "cuda", "arch": "sm_100"}
CHECKED = {"tile.emulate_check": True}
EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def example(name: str) -> ModuleType:
    return load_script(EXAMPLES / f"{name}.py")


def emulated(func: Any, **configs: Any) -> Any:
    return tl.compile(func, target=SM_100, execution="emulate", pass_configs={**CHECKED, **configs})


# m, n, k, options of the example, and the instruction that makes the product.
GEMMS: list[tuple[int, int, int, dict[str, Any], str]] = [
    (130, 72, 72, {"block": (128, 64, 32)}, "tcgen05 m128n64k16_f32_f16_f16"),
    (256, 64, 32, {"threads": 256, "block": (256, 64, 32), "transpose_b": True}, "tcgen05 m128n64k16_f32_f16_f16"),
    (128, 256, 128, {"threads": 256, "block": (128, 256, 64), "num_stages": 0}, "tcgen05 m128n256k16_f32_f16_f16"),
    (256, 48, 32, {"threads": 128, "block": (256, 48, 32), "num_stages": 2}, "tcgen05 m128n48k16_f32_f16_f16"),
    (
        128,
        96,
        64,
        {"dtype": "int8", "out_dtype": "int32", "block": (128, 96, 64), "transpose_b": True},
        "tcgen05 m128n96k32_s32_s8_s8",
    ),
    (100, 128, 64, {"block": (64, 128, 64)}, "tcgen05 m64n128k16_f32_f16_f16"),
    (64, 96, 64, {"block": (64, 96, 64), "threads": 256, "transpose_b": True}, "tcgen05 m64n96k16_f32_f16_f16"),
    (128, 64, 64, {"block": (32, 64, 64)}, "mma m16n8k16_f32_f16_f16"),
]


@pytest.mark.emulate
@pytest.mark.parametrize(("m", "n", "k", "options", "instruction"), GEMMS)
def test_products(m: int, n: int, k: int, options: dict[str, Any], instruction: str) -> None:
    dtype, transposed = options.get("dtype", "float16"), options.get("transpose_b", False)
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (n, k) if transposed else (k, n)))
    c = np.full((m, n), np.nan, dtype) if dtype == "float16" else np.full((m, n), 77, "int32")
    kernel = emulated(example("gemm").gemm(m, n, k, **options))
    kernel(a, b, c)
    expected = a.astype("float32") @ (b.T if transposed else b).astype("float32")
    assert (c == expected.astype(c.dtype)).all()
    (product,) = kernel.report()["products"]
    assert instruction in product


@pytest.mark.emulate
def test_it_is_switched_off() -> None:
    kernel = tl.compile(
        example("gemm").gemm(128, 128, 64),
        target=SM_100,
        execution="emulate",
        pass_configs={"tile.tensor_memory": False},
    )
    assert "mma m16n8k16" in kernel.report()["products"][0]


ATTENTIONS: list[tuple[int, dict[str, Any]]] = [
    (70, {"block": (128, 32), "causal": True, "threads": 128}),
]


@pytest.mark.emulate
@pytest.mark.parametrize(("sequence", "options"), ATTENTIONS)
def test_attention(sequence: int, options: dict[str, Any]) -> None:
    dtype = getattr(torch, options.get("dtype", "float16"))
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, sequence, 1, 64).to(dtype) for _ in range(3))
    out, lse = torch.full_like(q, float("nan")), torch.full((1, 1, sequence), float("nan"))
    module = example("attention")
    kernel = emulated(module.attention(1, 1, sequence, 64, **options))
    kernel(q, k, v, out, lse)
    tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-3
    expected = module.reference(q, k, v, causal=options.get("causal", False), window=None)
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
    report = kernel.report()
    assert report["fragments_in_shared"] == [] and len(report["products"]) == 3
    assert all("tcgen05" in product for product in report["products"])


@pytest.mark.emulate
def test_sixty_four_rows_stay_with_warps_where_another_product_does() -> None:
    """The second product has its 64 rows of A in a fragment, which tensor memory does not take."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 32), "float16"), D: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 32), "float16")
            first, second = T.alloc_fragment((64, 32), "float32"), T.alloc_fragment((64, 32), "float32")
            half = T.alloc_fragment((64, 32), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, first, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(first, half)
            T.gemm(half, b, second, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(second, D)

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-2, 3, shape).astype("float16") for shape in ((64, 32), (32, 32)))
    d = np.full((64, 32), np.nan, "float32")
    made = emulated(kernel)
    made(a, b, d)
    np.testing.assert_array_equal(d, a.astype("float32") @ b.astype("float32") @ b.astype("float32"))
    assert all(product.split(": ")[1].startswith("mma") for product in made.report()["products"])
    assert made.report()["fragments_in_shared"] == []


@pytest.mark.emulate
def test_values_move_between_tensor_memory_and_fragments() -> None:
    """A result that is changed between products, in a branch too, and read where only some are made."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 32), "float16"),
        B: T.Tensor((32, 32), "float16"),
        n: T.int32,
        D: T.Tensor((128, 32), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((128, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for step in T.serial(n):
                if step % 2 == 1:
                    T.gemm(a, b, c)
                for i, j in T.Parallel(128, 32):
                    c[i, j] = c[i, j] + 1.0
            T.gemm(a, b, c)
            T.copy(c, D)

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype("float16") for shape in ((128, 32), (32, 32)))
    compiled = emulated(kernel)
    for n in (0, 3):
        d = np.full((128, 32), np.nan, "float32")
        compiled(a, b, n, d)
        assert (d == (2 + n // 2) * (a.astype("float32") @ b.astype("float32")) + n).all()
    assert all("tcgen05" in product for product in compiled.report()["products"])


@pytest.mark.emulate
@pytest.mark.parametrize(("written", "clears_at"), [(False, (0,)), (True, (-1, 0, 1))])
def test_a_product_that_may_clear(written: bool, clears_at: tuple[int, ...]) -> None:
    """The first to name its result reads nothing of it; a value from before is added to where it does not clear."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 32), "float16"),
        B: T.Tensor((32, 32), "float16"),
        at: T.int32,
        Sums: T.Tensor((2, 128, 32), "float32"),
        Once: T.Tensor((128, 32), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((128, 32), "float32")
            once = T.alloc_fragment((128, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            if written:
                T.fill(c, 3)
                T.fill(once, 5)
            for tile in T.serial(2):
                for step in T.serial(2):
                    T.gemm(a, b, c, clear_accum=(step == at))
                T.copy(c, Sums[tile, 0, 0])
            T.gemm(a, b, once, clear_accum=(at == 0))
            T.copy(once, Once)

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, shape).astype("float16") for shape in ((128, 32), (32, 32)))
    product = a.astype("float32") @ b.astype("float32")
    compiled = emulated(kernel)
    assert all("tcgen05" in made for made in compiled.report()["products"])
    for at in clears_at:
        sums, once = np.full((2, 128, 32), np.nan, "float32"), np.full((128, 32), np.nan, "float32")
        compiled(a, b, at, sums, once)
        expected = np.full_like(product, 3)
        for tile in range(2):
            for step in range(2):
                expected = product if step == at else expected + product
            np.testing.assert_array_equal(sums[tile], expected)
        np.testing.assert_array_equal(once, product if at == 0 else product + 5)


@pytest.mark.emulate
def test_what_a_product_clears_may_be_written_in_part() -> None:
    """Checks find a read of the rest, so none of it is copied where it is cleared."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 32), "float16"),
        B: T.Tensor((32, 32), "float16"),
        Flag: T.Tensor((1,), "int32"),
        n: T.int32,
        C: T.Tensor((3, 128, 32), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            once = T.alloc_fragment((128, 32), "float32")
            looped = T.alloc_fragment((128, 32), "float32")
            deep = T.alloc_fragment((128, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(128, 32):
                if i < 5:
                    once[i, j] = 1.0
                    looped[i, j] = 2.0
                    deep[i, j] = 3.0
            T.gemm(a, b, once, clear_accum=(Flag[0] == 0))
            for step in T.serial(n):
                T.gemm(a, b, looped, clear_accum=(step == 0))
            for tile in T.serial(1, 2):
                for step in T.serial(3):
                    T.gemm(a, b, deep, clear_accum=(step + 1 == tile))
            T.copy(once, C[0, 0, 0])
            T.copy(looped[0:5, :], C[1, 0:5, :])
            T.copy(deep, C[2, 0, 0])

    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype("float16") for shape in ((128, 32), (32, 32)))
    product = a.astype("float32") @ b.astype("float32")
    compiled = emulated(kernel)
    assert all("tcgen05" in made for made in compiled.report()["products"])
    c = np.full((3, 128, 32), np.nan, "float32")
    compiled(a, b, np.zeros(1, "int32"), 2, c)
    np.testing.assert_array_equal(c[0], product)
    np.testing.assert_array_equal(c[1, :5], 2 * product[:5])
    np.testing.assert_array_equal(c[2], 3 * product)
    with pytest.raises(EmulatedUnwrittenError, match="once"):
        compiled(a, b, np.ones(1, "int32"), 2, c)


@pytest.mark.emulate
def test_a_product_that_adds_to_nothing_is_found() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((128, 32), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((128, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for _step in T.serial(2):
                T.gemm(a, b, c)
            T.copy(c, C)

    with pytest.raises(EmulatedUnwrittenError, match=r"reads c\[0\]"):
        emulated(kernel)(np.ones((128, 32), "float16"), np.ones((32, 32), "float16"), np.zeros((128, 32), "float32"))


def test_it_compiles(build: Any) -> None:
    source = build(example("gemm").gemm(512, 512, 512, threads=256, block=(256, 128, 64)), ("sm_100",))
    for name in ("mma_f16", "alloc", "dealloc", "commit", "load_x128", "store_x128", "fence_before", "fence_after"):
        assert f"tile_tcgen05_{name}" in source
    assert "tcgen05.mma.cta_group::1.kind::f16" in source
    source = build(example("attention").attention(1, 1, 256, 128, causal=True), ("sm_100",))
    assert "tile_tcgen05_mma_ts_f16" in source
    source = build(example("gemm").gemm(128, 128, 64, block=(64, 64, 64)), ("sm_100",))
    assert "tcgen05.ld.sync.aligned.16x32bx2.x32.b32" in source


def with_tiles(m: int, n: int, k: int, dtype: str = "float16", tiles: int = 1) -> Any:
    @C.prim_func
    def kernel(O: C.Tensor((m, n), "float32")):
        with C.Kernel(1, threads=128) as _bx:
            a = C.alloc_shared((m, k), dtype)
            b = C.alloc_shared((k, n), dtype)
            c = C.alloc_tmem((m, n), "float32")
            for _ in ["another"] * (tiles - 1):
                C.copy(C.alloc_tmem((m, n), "float32"), C.alloc_fragment((m, n), "float32"))
            f = C.alloc_fragment((m, n), "float32")
            C.gemm(a, b, c, clear_accum=True)
            C.copy(c, f)
            C.copy(f, O)

    return kernel


@pytest.mark.parametrize(
    ("kind", "names", "kernel"),
    [
        (MissingLoweringError, "32 × 32 × 16 .* nearest is 64 × 32 × 16", lambda: with_tiles(32, 32, 16)),
        (MissingLoweringError, "96 × 32 × 16 .* nearest is 128 × 32 × 16", lambda: with_tiles(96, 32, 16)),
        (MissingLoweringError, "128 × 24 × 40 .* nearest is 128 × 32 × 48", lambda: with_tiles(128, 24, 40)),
        (MissingLoweringError, "does not multiply float64", lambda: with_tiles(128, 32, 16, "float64")),
        (AllocationError, "1024 columns of tensor memory", lambda: with_tiles(128, 256, 16, tiles=3)),
    ],
)
def test_what_tensor_memory_cannot_do_is_refused(kind: type[Exception], names: str, kernel: Any) -> None:
    with pytest.raises(kind, match=names):
        tl.compile(kernel(), target=SM_100)


def by_hand(*, waits: bool = True, a_in_memory: bool = False, warp: bool = False) -> Any:
    """C = A B, K in steps of 64 by products in flight; with `warp` the first warp alone issues them."""

    @C.prim_func
    def kernel(
        A: C.Tensor((128, 128), "float16"), B: C.Tensor((128, 48), "float16"), D: C.Tensor((128, 48), "float32")
    ):
        with C.Kernel(1, threads=128) as _bx:
            a = C.alloc_shared((128, 128), "float16")
            b = C.alloc_shared((128, 48), "float16")
            total = C.alloc_tmem((128, 48), "float32")
            left = C.alloc_tmem((128, 128), "float16")
            held = C.alloc_fragment((128, 128), "float16")
            result = C.alloc_fragment((128, 48), "float32")
            done = C.alloc_barrier(1)
            tx = C.get_thread_binding(0)
            C.copy(A, a)
            C.copy(B, b)
            C.copy(A, held)
            C.copy(held, left)
            if a_in_memory:
                C.gemm(left, b, total, clear_accum=True, mbar=done)
            elif warp:
                C.fence_proxy_async()
                C.sync_threads()
                if tx < 32:
                    C.tcgen05_gemm(a[:, 0:64], b[0:64, :], total, clear_accum=True, mbar=None)
                    C.tcgen05_gemm(a[:, 64:128], b[64:128, :], total, mbar=done)
            else:
                C.tcgen05_gemm(a[:, 0:64], b[0:64, :], total, clear_accum=True, mbar=None)
                C.tcgen05_mma(a[:, 64:128], b[64:128, :], total, mbar=done)
            if waits:
                C.mbarrier_wait_parity(done, 0)
            C.copy(total, result)
            C.copy(result, D)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("options", [{}, {"a_in_memory": True}, {"warp": True}])
def test_products_in_flight(options: dict[str, bool]) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype("float16") for shape in ((128, 128), (128, 48)))
    expected = a.astype("float32") @ b.astype("float32")
    results = [np.full((128, 48), np.nan, "float32") for _ in range(2)]
    emulated(by_hand(**options))(a, b, results[0])
    tl.compile(by_hand(**options), target="interpret")(a, b, results[1])
    assert all((result == expected).all() for result in results)


@pytest.mark.emulate
def test_a_product_in_flight_that_is_not_waited_for_is_found() -> None:
    a, b, d = np.ones((128, 128), "float16"), np.ones((128, 48), "float16"), np.zeros((128, 48), "float32")
    with pytest.raises(EmulatedCopyError, match="nothing waits for it"):
        tl.compile(by_hand(waits=False), target=SM_100, execution="emulate")(a, b, d)


def test_products_by_hand_compile(build: Any) -> None:
    for options in ({"a_in_memory": True}, {"warp": True}):
        assert "tile_tcgen05_commit" in build(by_hand(**options), ("sm_100",))


@pytest.mark.parametrize(
    ("names", "statement"),
    [
        ("C: f is local.fragment", lambda f, t, d: C.tcgen05_gemm(t, t, f, mbar=d)),
        ("use_2cta", lambda f, t, d: C.tcgen05_gemm(t, t, C.alloc_tmem((32, 32), "float32"), mbar=d, use_2cta=True)),
        ("mbar: f is local.fragment", lambda f, t, d: C.gemm(t, t, f, mbar=d)),
    ],
)
def test_arguments_are_checked(names: str, statement: Any) -> None:
    with pytest.raises(OpArgumentError, match=names):

        @C.prim_func
        def kernel(A: C.Tensor((32, 32), "float16")):
            with C.Kernel(1, threads=128) as _bx:
                f = C.alloc_fragment((32, 32), "float32")
                statement(f, C.alloc_shared((32, 32), "float16"), C.alloc_barrier(1))
