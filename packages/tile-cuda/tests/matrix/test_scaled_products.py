"""Block-scaled products of tiles by warps (sm_120): emulated and interpreted against numpy, compiled, refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.ops import GemmShapeError, OpArgumentError
from tile_core.errors.passes import MissingLoweringError

SM_120 = {"kind": "cuda", "arch": "sm_120"}
CHECKED = {"tile.emulate_check": True}
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"


def gemm(
    m: int, n: int, k: int, granularity: int = 32, *, transposed: bool = True, threads: int = 64, dtype: str = E4M3
) -> Any:
    """C = (A · FA) (B · FB), K in two halves."""
    half = k // 2
    b_shape, b_tile = ((n, k), (n, half)) if transposed else ((k, n), (half, n))
    words = -(-k // (4 * granularity)), -(-k // 128)

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor(b_shape, E5M2),
        FA: T.Tensor((m, words[0]), "uint32"),
        FB: T.Tensor((n, words[1]), "uint32"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=threads) as _bx:
            a = T.alloc_shared((m, half), dtype)
            b = T.alloc_shared(b_tile, E5M2)
            fa = T.alloc_shared((m, words[0]), "uint32")
            fb = T.alloc_shared((n, words[1]), "uint32")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(FA, fa)
            T.copy(FB, fb)
            T.clear(c)
            for step in T.serial(2):
                T.copy(A[0, step * half], a)
                if transposed:
                    T.copy(B[0, step * half], b)
                else:
                    T.copy(B[step * half, 0], b)
                T.mma_gemm_blockscaled(
                    a, b, c, fa, fb, transpose_B=transposed, k_start=step * half,
                    sf_a_granularity_k=granularity, sf_b_granularity_k=32,
                )  # fmt: skip
            T.copy(c, C)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("m", "n", "k", "options"),
    [
        (32, 24, 192, {}),
        (64, 16, 64, {"granularity": 64, "threads": 128}),
        (16, 16, 64, {"transposed": False, "threads": 32}),
        (16, 8, 64, {"far": True, "threads": 32}),
    ],
)
def test_results(m: int, n: int, k: int, options: dict[str, Any]) -> None:
    """`far`: factors of A with which its elements leave the range of float32, and factors of B that bring them back."""
    rng = np.random.default_rng(5)
    options = dict(options)
    lowest = (250, 0) if options.pop("far", False) else (125, 125)
    granularity, transposed = options.get("granularity", 32), options.get("transposed", True)
    a = rng.integers(-3, 4, (m, k)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.integers(-3, 4, (n, k)).astype(ml_dtypes.float8_e5m2)
    scaled, words = [], []
    for matrix, lines, each, low in ((a, m, granularity, lowest[0]), (b, n, 32, lowest[1])):
        factors = rng.integers(low, low + 5, (lines, -(-k // (4 * each)) * 4)).astype(np.uint8)
        words.append(factors.view(np.uint32))
        scaled.append(matrix.astype("float64") * 2.0 ** (factors[:, np.arange(k) // each].astype("float64") - 127))
    given = (a, b if transposed else np.ascontiguousarray(b.T), *words)
    emulated = tl.compile(gemm(m, n, k, **options), target=SM_120, execution="emulate", pass_configs=CHECKED)
    assert "mma m16n8k32" in emulated.report()["products"][0]
    for kernel in (emulated, tl.compile(gemm(m, n, k, **options), target="interpret")):
        c = np.full((m, n), np.nan, "float32")
        kernel(*given, c)
        np.testing.assert_allclose(c, scaled[0] @ scaled[1].T, rtol=1e-6)


def test_it_compiles(build: Any) -> None:
    source = build(gemm(32, 24, 128), ("sm_120",))
    assert "kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0" in source


@pytest.mark.parametrize(
    ("arch", "kernel", "names"),
    [
        ("sm_90", lambda: gemm(32, 24, 128), "sm_90 has no block-scaled mma"),
        ("sm_120", lambda: gemm(32, 20, 128), "the nearest is 32 × 24 × 64"),
        ("sm_120", lambda: gemm(32, 24, 128, threads=40), "40 threads are not whole warps"),
    ],
)
def test_what_no_instruction_computes_is_refused(arch: str, kernel: Any, names: str) -> None:
    with pytest.raises(MissingLoweringError, match=names):
        tl.compile(kernel(), target={"kind": "cuda", "arch": arch})


@pytest.mark.parametrize(
    ("kind", "names", "options"),
    [
        (OpArgumentError, "granularities", {"sf_a_granularity_k": 16}),
        (OpArgumentError, "sf_layout", {"sf_layout": "packed"}),
        (GemmShapeError, "take 2 words, not 1", {"k_start": 96}),
    ],
)
def test_arguments_are_checked(kind: type[Exception], names: str, options: dict[str, Any]) -> None:
    given = {"k_start": 0, "sf_a_granularity_k": 32, "sf_b_granularity_k": 32, **options}
    with pytest.raises(kind, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=32) as _bx:
                a = T.alloc_shared((16, 64), E4M3)
                words = T.alloc_shared((16, 1), "uint32")
                c = T.alloc_fragment((16, 16), "float32")
                T.mma_gemm_blockscaled(a, a, c, words, words, transpose_B=True, **given)
