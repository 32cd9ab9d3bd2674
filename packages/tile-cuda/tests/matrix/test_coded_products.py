"""Products of floats of 8, 6 and 4 bits, also of two types, by their own instructions: against float64, emulated with
checks, and compiled for what this machine is not.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import tile_core as tl
import tile_cuda.language as T

CHECKED = {"tile.emulate_check": True}
E4M3, E5M2, E2M3, E3M2, E2M1 = (
    "float8_e4m3fn",
    "float8_e5m2",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
)
BITS = {E4M3: 8, E5M2: 8, E2M3: 6, E3M2: 6, E2M1: 4}
PTX = {E4M3: "e4m3", E5M2: "e5m2", E2M3: "e2m3", E3M2: "e3m2", E2M1: "e2m1"}
PAIRS = [(E2M3, E2M3), (E3M2, E4M3), (E5M2, E2M1)]
SIZE, BLOCK = (72, 40, 100), (64, 32, 64)


def operand(dtype: str, rows: int, columns: int, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """A tensor as a caller has it, with every code of its type, and the values as float64."""
    codes = np.random.default_rng(seed).integers(0, 1 << BITS[dtype], (rows, columns)).astype(np.uint8)
    numpy = getattr(ml_dtypes, dtype)
    codes[~np.isfinite(codes.view(numpy).astype("float64"))] = 0
    values = codes.view(numpy).astype("float64")
    if BITS[dtype] == 8:
        return torch.from_numpy(codes).view(getattr(torch, dtype)), values
    return torch.from_numpy(codes if BITS[dtype] == 6 else codes[:, ::2] | codes[:, 1::2] << 4), values


def product(
    a_dtype: str,
    b_dtype: str,
    size: tuple[int, int, int] = SIZE,
    block: tuple[int, int, int] = BLOCK,
    *,
    turned: bool = False,
    held: bool = False,
    stages: int = 2,
    total: str = "float32",
) -> Any:
    """C = A B; `turned`: K is neither operand's last axis. `held`: A goes through a fragment."""
    (m, n, k), (bm, bn, bk) = size, block
    a_shape, b_shape = ((k, m), (k, n)) if turned else ((m, k), (n, k))
    a_tile, b_tile = ((bk, bm), (bk, bn)) if turned else ((bm, bk), (bn, bk))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, a_dtype), B: T.Tensor(b_shape, b_dtype), C: T.Tensor((m, n), total)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a, b = T.alloc_shared(a_tile, a_dtype), T.alloc_shared(b_tile, b_dtype)
            own = T.alloc_fragment(a_tile, a_dtype)
            c = T.alloc_fragment((bm, bn), total)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if turned:
                    T.copy(A[step * bk, by * bm], a)
                    T.copy(B[step * bk, bx * bn], b)
                else:
                    T.copy(A[by * bm, step * bk], a)
                    T.copy(B[bx * bn, step * bk], b)
                if held:
                    T.copy(a, own)
                    T.gemm(own, b, c, transpose_B=True)
                else:
                    T.gemm(a, b, c, transpose_A=turned, transpose_B=not turned)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def check(arch: str, a_dtype: str, b_dtype: str, uses: str, *, options: Any = None, **form: Any) -> None:
    """Run a product and compare; what computed it is named in the report."""
    m, n, k = form.get("size", SIZE)
    shapes = [(k, m), (k, n)] if form.get("turned") else [(m, k), (n, k)]
    (a, left), (b, right) = (
        operand(dtype, *shape, seed) for seed, (dtype, shape) in enumerate(zip((a_dtype, b_dtype), shapes, strict=True))
    )
    expected = left.T @ right if form.get("turned") else left @ right.T
    c = torch.full((m, n), torch.nan, dtype=getattr(torch, form.get("total", "float32")))
    target = {"kind": "cuda", "arch": arch}
    configs = {**CHECKED, **(options or {})}
    kernel = tl.compile(product(a_dtype, b_dtype, **form), target=target, execution="emulate", pass_configs=configs)
    kernel(a, b, c)
    (used,) = kernel.report()["products"]
    assert uses in used
    tolerance = 1e-6 if c.dtype == torch.float32 else 1e-3
    np.testing.assert_allclose(c.double().numpy(), expected, rtol=0, atol=tolerance * abs(expected).max())


@pytest.mark.emulate
@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS)
@pytest.mark.parametrize(
    ("arch", "block", "instruction"),
    [("sm_120", BLOCK, "mma m16n8k32_f32_{}_{}"), ("sm_100", (128, 32, 64), "tcgen05 m128n32k32_f32_{}_{}")],
)
def test_pairs_of_types(arch: str, block: tuple[int, int, int], instruction: str, a_dtype: str, b_dtype: str) -> None:
    check(arch, a_dtype, b_dtype, instruction.format(PTX[a_dtype], PTX[b_dtype]), block=block)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "a_dtype", "b_dtype", "uses", "form"),
    [
        ("sm_120", E2M1, E2M3, "mma m16n8k32_f32_e2m1_e2m3", {"turned": True}),
        ("sm_100", E3M2, E2M1, "tcgen05 m128n32k32_f32_e3m2_e2m1", {"turned": True, "block": (128, 32, 64)}),
        ("sm_120", E3M2, E5M2, "mma m16n8k32_f32_e3m2_e5m2", {"held": True}),
        ("sm_120", E2M1, E2M1, "mma m16n8k32_f32_e2m1_e2m1", {"held": True, "total": "float16"}),
        ("sm_100", E2M3, E2M1, "tcgen05 m128n32k32_f32_e2m3_e2m1", {"held": True, "block": (128, 32, 64)}),
    ],
)
def test_other_orders_fragments_and_results(arch: str, a_dtype: str, b_dtype: str, uses: str, form: Any) -> None:
    check(arch, a_dtype, b_dtype, uses, **form)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "a_dtype", "b_dtype", "uses", "options", "form"),
    [
        ("sm_90", E2M3, E2M1, "wgmma m64n32k16_f32_f16_f16", {}, {}),
        ("sm_90", E3M2, E4M3, "wgmma m64n32k32_f32_e4m3_e4m3", {}, {}),
        ("sm_120", E2M1, E2M3, "mma m16n8k16_f32_f16_f16", {}, {"block": (64, 32, 48)}),
        ("sm_120", E3M2, E2M1, "scalar code", {}, {"block": (64, 32, 20)}),
        ("sm_100", E2M1, E2M3, "mma m16n8k16_f32_f16_f16", {"tile.tensor_memory": False}, {"block": (128, 32, 64)}),
    ],
)
def test_what_stands_in_where_there_is_no_such_instruction(
    arch: str, a_dtype: str, b_dtype: str, uses: str, options: Any, form: Any
) -> None:
    check(arch, a_dtype, b_dtype, uses, options=options, **form)


@pytest.mark.emulate
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [(E2M1, E3M2), (E2M3, E2M3)])
def test_codes_that_no_instruction_takes_after_all_are_multiplied_by_loops(a_dtype: str, b_dtype: str) -> None:
    """C is read in another order and leaves the registers, when the operands are codes already."""
    m = n = k = 64

    @T.prim_func
    def kernel(A: T.Tensor((m, k), a_dtype), B: T.Tensor((n, k), b_dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((m, k), a_dtype), T.alloc_shared((n, k), b_dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(m, n):
                C[i, j] = c[i, n - 1 - j] + c[m - 1 - i, j]

    (a, left), (b, right) = operand(a_dtype, m, k, 0), operand(b_dtype, n, k, 1)
    c = torch.full((m, n), torch.nan)
    made = tl.compile(kernel, target={"kind": "cuda", "arch": "sm_120"}, execution="emulate", pass_configs=CHECKED)
    made(a, b, c)
    assert "scalar code" in made.report()["products"][0]
    expected = left @ right.T
    np.testing.assert_allclose(c.numpy(), expected[:, ::-1] + expected[::-1], rtol=0, atol=1e-4)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("arch", "a_dtype", "b_dtype", "block", "instructions"),
    [
        (
            "sm_120",
            E2M3,
            E2M1,
            BLOCK,
            (
                "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e2m1.f32",
                "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
            ),
        ),
        ("sm_100", E2M1, E3M2, (128, 32, 64), ("tcgen05.mma.cta_group::1.kind::f8f6f4",)),
    ],
)
def test_compiled(arch: str, a_dtype: str, b_dtype: str, block: tuple[int, int, int], instructions: Any) -> None:
    kernel = tl.compile(product(a_dtype, b_dtype, block=block), target={"kind": "cuda", "arch": arch})
    assert all(instruction in kernel.get_kernel_source() for instruction in instructions)


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", [E2M3, E3M2])
def test_values_of_six_bits_are_converted(dtype: str, agree: Any) -> None:
    """Every code, every point between two, its neighbours, and what is beyond: as the interpreter rounds them."""
    numpy = getattr(ml_dtypes, dtype)
    exact = np.sort(np.arange(64, dtype=np.uint8).view(numpy).astype("float32"))
    middle = (exact[1:] + exact[:-1]) / 2
    beyond = np.array([np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 3e38, 29.0, 7.6], "float32")
    x = np.concatenate([exact, middle, *(np.nextafter(middle, np.float32(end)) for end in (-99, 99)), beyond, -exact])
    count = len(x)

    @T.prim_func
    def kernel(
        X: T.Tensor((count,), "float32"),
        Y: T.Tensor((count,), dtype),
        Z: T.Tensor((count,), "float32"),
        S: T.Tensor((count,), dtype),
    ):
        with T.Kernel(1, threads=64):
            tile, held = T.alloc_shared((count,), dtype), T.alloc_fragment((count,), dtype)
            T.fill(tile, 1.5)
            T.copy(tile, S)
            T.copy(X, tile)
            T.copy(tile, held)
            T.copy(held, Y)
            for i in T.Parallel(count):
                Z[i] = T.cast(held[i], "float32")

    y, s = np.full((count,), 255, np.uint8), np.full((count,), 255, np.uint8)
    _x, codes, values, set_to = agree(kernel, x, y, np.full((count,), np.nan, "float32"), s)
    assert np.array_equal(codes[:64] & 31 != 0, exact != 0)
    assert np.array_equal(codes.view(numpy).astype("float32"), values)
    assert np.array_equal(values[:64], exact)
    assert (set_to.view(numpy).astype("float32") == 1.5).all()


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", [E2M3, E3M2, E2M1])
def test_nan_of_either_sign_is_the_largest_value(dtype: str, agree: Any) -> None:
    """The formats have no NaN (PTX ISA, "cvt", `.satfinite`)."""
    x = np.array([np.nan, -np.nan, -np.inf, np.inf, -1, 1, -0.0, 0], "float32")

    @T.prim_func
    def kernel(X: T.Tensor((8,), "float32"), Z: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                Z[i] = T.cast(T.cast(X[i], dtype), "float32")

    _x, z = agree(kernel, x, np.full((8,), np.nan, "float32"))
    most = float(ml_dtypes.finfo(getattr(ml_dtypes, dtype)).max)
    assert np.signbit(x[:2]).tolist() == [False, True]
    np.testing.assert_array_equal(z, [most, most, -most, most, -1, 1, 0, 0])


def test_arrays_of_six_bits_are_passed_as_they_are() -> None:
    """numpy's arrays of the type, which no other library has, and bytes."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), E2M3), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i]

    made = tl.compile(kernel, target={"kind": "cuda", "arch": "sm_80"}, execution="emulate")
    codes = np.arange(20, 28, dtype=np.uint8)
    for array in (codes, codes.view(ml_dtypes.float6_e2m3fn)):
        b = np.full((8,), np.nan, "float32")
        made(array, b)
        np.testing.assert_array_equal(b, codes.view(ml_dtypes.float6_e2m3fn).astype("float32"))
