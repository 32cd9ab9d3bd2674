"""Tiles of 8-bit floats: every code, conversions that saturate, arithmetic that rounds once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_cuda.language as T
from tile_core.dtypes import DType
from tile_core.dtypes.casts import cast
from tile_core.errors.passes import DataTypeUnsupportedError

DTYPES = ["float8_e4m3fn", "float8_e5m2"]
TARGET = {"kind": "cuda", "arch": "sm_90"}


def convert(n: int, source: str, target: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), source), B: T.Tensor((n,), target)):
        with T.Kernel(T.ceildiv(n, 256), threads=32) as bx:
            f = T.alloc_fragment((256,), source)
            T.copy(A[bx * 256], f)
            for i in T.Parallel(256):
                B[bx * 256 + i] = T.cast(f[i], target)

    return kernel


def add(n: int, dtype: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 512), threads=32) as bx:
            for i in T.Parallel(512):
                C[bx * 512 + i] = A[bx * 512 + i] + B[bx * 512 + i]

    return kernel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def codes(dtype: str) -> torch.Tensor:
    return torch.arange(256, dtype=torch.uint8).view(getattr(torch, dtype))


@pytest.mark.emulate
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_becomes_its_value(dtype: str, target: str) -> None:
    kind = getattr(torch, target)
    out = torch.full((256,), 77.0).to(kind)
    tl.compile(convert(256, dtype, target), target=TARGET, execution="emulate")(codes(dtype), out)
    torch.testing.assert_close(out, codes(dtype).to(kind), rtol=0, atol=0, equal_nan=True)


@pytest.mark.emulate
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_round_to_nearest_and_saturate(dtype: str, source: str) -> None:
    """All bit patterns of 16 bits, as many of 32: NaN stays NaN, whatever is too large becomes the largest value."""
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32)
    kind = getattr(torch, source)
    values = (bits << 16 | 0x7FFF).view(kind) if source == "float32" else bits.to(torch.int16).view(kind)
    out = torch.zeros(len(bits), dtype=torch.uint8).view(getattr(torch, dtype))
    tl.compile(convert(len(bits), source, dtype), target=TARGET, execution="emulate")(values, out)
    wide, found = values.float().numpy(), out.float().numpy()
    expected = cast(wide, DType("float32"), DType(dtype)).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found[np.isfinite(wide) | np.isinf(wide)]).all()
    same = ~np.isnan(wide)
    np.testing.assert_array_equal(np.signbit(found[same]), np.signbit(expected[same]))


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1024, 1023, 1025])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_move_as_vectors_and_round_once(dtype: str, n: int) -> None:
    kind = getattr(torch, dtype)
    a, b = (torch.randint(0, 256, (n,), dtype=torch.uint8).view(kind) for _ in range(2))
    c = torch.zeros(n, dtype=torch.uint8).view(kind)
    kernel = tl.compile(add(n, dtype), target=TARGET, execution="emulate")
    kernel(a, b, c)
    wide = a.float().numpy() + b.float().numpy()
    expected = cast(wide, DType("float32"), DType(dtype)).astype(np.float32)
    np.testing.assert_array_equal(c.float().numpy(), expected)
    code = kernel.get_kernel_source()
    assert "#include <cuda_fp8.h>" in code
    assert code.count("= tile_load<uint4>") == 2, "the kernel for any alignment"
    assert "tile_pair_" in code


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_device_compiler_takes_them(dtype: str, arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    for program in (add(1000, dtype), convert(1000, dtype, "float16"), convert(1000, "bfloat16", dtype)):
        assert tl.compile(program, target={"kind": "cuda", "arch": arch}).artifact.files


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_a_warp_does_not_combine_them(kind: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float8_e5m2"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            at = T.get_thread_binding()
            B[at] = T.cast(getattr(T, f"warp_reduce_{kind}")(A[at]), "float32")

    with pytest.raises(DataTypeUnsupportedError, match=f"T.warp_reduce_{kind} of a float8_e5m2") as caught:
        tl.compile(kernel, target="cuda", execution="emulate")
    assert caught.value.span is not None


def test_kernels_without_them_do_not_read_their_header() -> None:
    source = tl.compile(convert(256, "float32", "float16"), target=TARGET, execution="emulate").get_kernel_source()
    assert "cuda_fp8" not in source
