"""Block-scaled products in tensor memory: emulated against numpy, mistakes that are found, compiled for sm_100a."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.ops import GemmDTypeError, GemmShapeError, OpArgumentError
from tile_core.errors.passes import UnsupportedOnTargetError
from tile_cuda.instructions.block_scaled import KINDS, ScaledKind, factors_at, scaled_descriptor

SM_100 = {"kind": "cuda", "arch": "sm_100"}
CHECKED = {"tile.emulate_check": True}
BITS = {"float8_e4m3fn": 8, "float8_e5m2": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}
ROWS, N, STEPS = 128, 48, 2


def units(codes: np.ndarray, bits: int, each: int) -> np.ndarray:
    """Lines of codes as units of 16 bytes, `each` codes in one, packed from the first bit on: [unit, line, 16]."""
    lines, k = codes.shape
    found = np.zeros((k // each, lines, 16), np.uint8)
    for unit in range(k // each):
        for at in range(each):
            for bit in range(bits):
                place = at * bits + bit
                found[unit, :, place // 8] |= ((codes[:, unit * each + at] >> bit & 1) << place % 8).astype(np.uint8)
    return found


def values(codes: np.ndarray, dtype: str) -> np.ndarray:
    return codes.astype(np.uint8).view(getattr(ml_dtypes, dtype)).astype("float32")


def factors(rng: np.random.Generator, lines: int, kind: ScaledKind) -> np.ndarray:
    """Four bytes a line: powers of two near 1, or floats."""
    low, high = (125, 130) if kind.scale == "float8_e8m0fnu" else (0x30, 0x48)
    return rng.integers(low, high, (lines, 4)).astype(np.uint8)


def product(kind: ScaledKind, a: str, b: str, *, copies: bool = True, first: int = 0) -> Any:
    """C = A B of `STEPS` steps, each with the next factors of the words, which begin at byte `first`."""
    word = scaled_descriptor(kind, N, a, b)

    @T.prim_func
    def kernel(
        A: T.Tensor((2 * STEPS, ROWS, 16), "uint8"),
        B: T.Tensor((2 * STEPS, N, 16), "uint8"),
        FA: T.Tensor((128,), "uint32"),
        FB: T.Tensor((128,), "uint32"),
        C: T.Tensor((ROWS, N), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a_tile = T.alloc_shared((2 * STEPS, ROWS, 16), "uint8")
            b_tile = T.alloc_shared((2 * STEPS, N, 16), "uint8")
            a_words = T.alloc_shared((128,), "uint32")
            b_words = T.alloc_shared((128,), "uint32")
            total = T.alloc_tmem((128, N), "float32")
            a_factors = T.alloc_tmem((128, 4), "uint32")
            b_factors = T.alloc_tmem((128, 4), "uint32")
            c = T.alloc_fragment((ROWS, N), "float32")
            done = T.alloc_barrier(1)
            a_desc = T.alloc_tcgen05_smem_desc()
            b_desc = T.alloc_tcgen05_smem_desc()
            tx = T.get_thread_binding(0)
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.copy(FA, a_words)
            T.copy(FB, b_words)
            T.initialize_tcgen05_descriptor(a_desc, a_tile, ROWS, 8)
            T.initialize_tcgen05_descriptor(b_desc, b_tile, N, 8)
            T.sync_threads()
            if tx < 32:
                T.tcgen05_sf_warp_transpose(a_words)
                T.tcgen05_sf_warp_transpose(b_words)
            T.fence_proxy_async()
            T.sync_threads()
            if tx < 32:
                if copies:
                    T.tcgen05_cp_warpx4(a_words, a_factors)
                T.tcgen05_cp_warpx4(b_words, b_factors)
                for step in (0, 1):
                    T.ptx_tcgen05_mma_blockscaled_ss(
                        a, a_desc, step * 2 * ROWS, b_desc, step * 2 * N, total, 0,
                        word | factors_at(first + step * kind.factors % 4, first + step * kind.factors % 4),
                        step > 0, a_factors, 0, b_factors, 0,
                    )  # fmt: skip
                T.tcgen05_mma_arrive(done)
            T.mbarrier_wait_parity(done, 0)
            T.tcgen05_after_thread_sync()
            T.copy(total, c)
            T.copy(c, C)

    return kernel


PAIRS = [
    ("mxf8f6f4", "float8_e4m3fn", "float8_e4m3fn"),
    ("mxf8f6f4", "float8_e5m2", "float4_e2m1fn"),
    ("mxf8f6f4", "float6_e2m3fn", "float6_e3m2fn"),
    ("mxf4", "float4_e2m1fn", "float4_e2m1fn"),
    ("mxf4nvf4", "float4_e2m1fn", "float4_e2m1fn"),
]


def operands(kind: ScaledKind, a: str, b: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments of a product, and what it computes."""
    rng = np.random.default_rng(7)
    k, each = kind.k * STEPS, 32 if kind.k == 64 else 16
    arguments, scaled = [], []
    scales = [factors(rng, lines, kind) for lines in (ROWS, N)]
    for dtype, lines, scale in ((a, ROWS, scales[0]), (b, N, scales[1])):
        codes = rng.integers(0, 1 << BITS[dtype], (lines, k))
        codes[~np.isfinite(values(codes, dtype))] = 0
        arguments.append(units(codes, BITS[dtype], each))
        numbers = np.arange(k) // kind.k * kind.factors % 4 + np.arange(k) % kind.k // kind.block
        scaled.append(values(codes, dtype) * values(scale, kind.scale)[:, numbers])
    for scale in scales:
        words = np.zeros((128,), "uint32")
        words[: len(scale)] = scale.view("uint32")[:, 0]
        arguments.append(words)
    return arguments, scaled[0].astype("float64") @ scaled[1].astype("float64").T


@pytest.mark.emulate
@pytest.mark.parametrize(("kind", "a", "b"), PAIRS)
def test_results(kind: str, a: str, b: str) -> None:
    arguments, expected = operands(KINDS[kind], a, b)
    c = np.full((ROWS, N), np.nan, "float32")
    kernel = product(KINDS[kind], a, b)
    tl.compile(kernel, target=SM_100, execution="emulate", pass_configs=CHECKED)(*arguments, c)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-3 * abs(expected).max())


@pytest.mark.emulate
def test_factors_that_were_not_copied_are_found() -> None:
    arguments, _expected = operands(KINDS["mxf8f6f4"], "float8_e4m3fn", "float8_e4m3fn")
    c = np.full((ROWS, N), 7, "float32")
    kernel = product(KINDS["mxf8f6f4"], "float8_e4m3fn", "float8_e4m3fn", copies=False)
    tl.compile(kernel, target=SM_100, execution="emulate")(*arguments, c)
    assert np.isnan(c).all()


def test_it_compiles(build: Any) -> None:
    for kind, a, b in PAIRS[1::2] + PAIRS[4:]:
        source = build(product(KINDS[kind], a, b), ("sm_100",))
        assert f"kind::{kind}.block_scale.scale_vec::{KINDS[kind].factors}X" in source
    assert "tcgen05.cp.cta_group::1.32x128b.warpx4" in source


def test_other_architectures_are_refused() -> None:
    with pytest.raises(UnsupportedOnTargetError, match="sm_120.*has no tensor memory"):
        tl.compile(product(KINDS["mxf4"], *PAIRS[3][1:]), target={"kind": "cuda", "arch": "sm_120"})


def with_memory(statement: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            t = T.alloc_tmem((128, 32), "float32")
            statement(t, T.alloc_tcgen05_smem_desc(), T.alloc_shared((128,), "uint32"))


E4M3 = "float8_e4m3fn"
WORD = scaled_descriptor(KINDS["mxf8f6f4"], 32, E4M3, E4M3)


@pytest.mark.parametrize(
    ("names", "statement"),
    [
        ("describes no block-scaled", lambda t, d, w: blockscaled(t, d, WORD | 1)),
        ("describes no block-scaled", lambda t, d, w: blockscaled(t, d, WORD & ~(63 << 17))),
        ("enable_2cta", lambda t, d, w: blockscaled(t, d, WORD, enable_2cta=True)),
        ("smem_src: t is shared.tmem", lambda t, d, w: T.tcgen05_cp_warpx4(t, t)),
        (r"shape \(100,\)", lambda t, d, w: T.tcgen05_sf_warp_transpose(T.alloc_shared((100,), "uint32"))),
        ("use_2cta", lambda t, d, w: T.tcgen05_cp_warpx4(w, t, use_2cta=True)),
    ],
)
def test_arguments_are_checked(names: str, statement: Any) -> None:
    with pytest.raises(OpArgumentError, match=names):
        with_memory(statement)


def blockscaled(memory: Any, descriptor: Any, word: int, **options: Any) -> None:
    T.ptx_tcgen05_mma_blockscaled_ss(
        E4M3, descriptor, 0, descriptor, 0, memory, 0, word, 1, memory, 0, memory, 0, **options
    )


def test_descriptors_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="does not multiply"):
        scaled_descriptor(KINDS["mxf4"], 32, E4M3, E4M3)
    with pytest.raises(ValueError, match="fast axis"):
        scaled_descriptor(KINDS["mxf8f6f4"], 32, "float4_e2m1fn", E4M3, a_trans=True)


def gemm(m: int, n: int, k: int, *, by_steps: bool = False, transposed: bool = True, granularity: int = 32) -> Any:
    """C = (A · FA) (B · FB), factors by the threads; with `by_steps` K is taken 32 at a time by a loop."""
    b_shape = (n, k) if transposed else (k, n)

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), E4M3),
        B: T.Tensor(b_shape, "float8_e5m2"),
        FA: T.Tensor((128, m // 32), "uint32"),
        FB: T.Tensor((128, 8), "uint32"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128) as _bx:
            a = T.alloc_shared((m, 32 if by_steps else k), E4M3)
            b = T.alloc_shared((n, 32) if by_steps else b_shape, "float8_e5m2")
            total = T.alloc_tmem((128, n * (m // 128)), "float32")
            fa_tmem = T.alloc_tmem((128, m // 32), "uint32")
            fb_tmem = T.alloc_tmem((128, 8), "uint32")
            fa = T.alloc_fragment((128, m // 32), "uint32")
            fb = T.alloc_fragment((128, 8), "uint32")
            c = T.alloc_fragment((128, n), "float32")
            done = T.alloc_barrier(1)
            T.copy(FA, fa)
            T.copy(fa, fa_tmem)
            T.copy(FB, fb)
            T.copy(fb, fb_tmem)
            if by_steps:
                for step in T.serial(k // 32):
                    T.copy(A[0, step * 32], a)
                    T.copy(B[0, step * 32], b)
                    T.tcgen05_gemm_blockscaled(
                        a, b, total, fa_tmem, fb_tmem, transpose_B=True, clear_accum=step == 0, mbar=done,
                        k_start=step * 32, sf_a_granularity_k=granularity, sf_b_granularity_k=32,
                    )  # fmt: skip
                    T.mbarrier_wait_parity(done, step % 2)
            else:
                T.copy(A, a)
                T.copy(B, b)
                T.tcgen05_mma_blockscaled(
                    a, b, total, fa_tmem, fb_tmem, transpose_B=transposed, clear_accum=True, mbar=done,
                    k_start=0, sf_a_granularity_k=granularity, sf_b_granularity_k=32,
                )  # fmt: skip
                T.mbarrier_wait_parity(done, 0)
            T.copy(total, c)
            T.copy(c, C)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("n", "k", "options"),
    [(48, 64, {"granularity": 64}), (64, 96, {"by_steps": True}), (64, 64, {"transposed": False, "far": 125})],
)
def test_products_of_tiles(n: int, k: int, options: dict[str, Any]) -> None:
    """`far`: with factors of A its elements leave the range of float32, and factors of B bring them back."""
    rng, m, options = np.random.default_rng(3), 128, dict(options)
    far = options.pop("far", 0)
    a = rng.integers(-3, 4, (m, k)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.integers(-3, 4, (n, k)).astype(ml_dtypes.float8_e5m2)
    bytes_a, bytes_b = factors(rng, m, KINDS["mxf8f6f4"]) + far, factors(rng, 256, KINDS["mxf8f6f4"]) - far
    each = np.arange(k) // options.get("granularity", 32) % 4
    left = a.astype("float64") * values(bytes_a, "float8_e8m0fnu").astype("float64")[:, each]
    right = b.astype("float64") * values(bytes_b[:n], "float8_e8m0fnu").astype("float64")[:, np.arange(k) // 32 % 4]
    words = [np.tile(one.view("uint32")[:, 0].reshape(-1, 32).T, (4, 1)) for one in (bytes_a, bytes_b)]
    given = (a, b if options.get("transposed", True) else np.ascontiguousarray(b.T))
    for target, execution in ((SM_100, "emulate"), ("interpret", "native")):
        c = np.full((m, n), np.nan, "float32")
        configs = CHECKED if execution == "emulate" else {}
        options_of = {"execution": execution} if execution == "emulate" else {}
        tl.compile(gemm(m, n, k, **options), target=target, pass_configs=configs, **options_of)(*given, *words, c)
        np.testing.assert_allclose(c, left @ right.T, rtol=1e-5)


def test_products_of_tiles_compile(build: Any) -> None:
    assert "scale_vec::1X" in build(gemm(128, 64, 96, by_steps=True), ("sm_100",))


@pytest.mark.parametrize(
    ("kind", "names", "statement"),
    [
        (OpArgumentError, "granularities", lambda t, a, f: scaled(a, a, t, f, f, granularity=16)),
        (OpArgumentError, "use_2cta", lambda t, a, f: scaled(a, a, t, f, f, use_2cta=True)),
        (OpArgumentError, "C: a is shared", lambda t, a, f: scaled(a, a, a, f, f)),
        (
            GemmDTypeError,
            "factors of A are float32",
            lambda t, a, f: scaled(a, a, t, T.alloc_tmem((128, 4), "float32"), f),
        ),
        (GemmShapeError, "more than the 4 of a word", lambda t, a, f: scaled(a, a, t, f, f, granularity=32)),
    ],
)
def test_arguments_of_products_of_tiles_are_checked(kind: type[Exception], names: str, statement: Any) -> None:
    with pytest.raises(kind, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=128) as _bx:
                t = T.alloc_tmem((128, 128), "float32")
                a = T.alloc_shared((128, 256), E4M3)
                statement(t, a, T.alloc_tmem((128, 4), "uint32"))


def scaled(a: Any, b: Any, c: Any, fa: Any, fb: Any, granularity: int = 64, **options: Any) -> None:
    T.tcgen05_gemm_blockscaled(
        a, b, c, fa, fb, transpose_B=True, k_start=0,
        sf_a_granularity_k=granularity, sf_b_granularity_k=granularity, **options,
    )  # fmt: skip
