"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as portable
import tile_cuda.language as T
from tile_core.errors import (
    CallSignatureError,
    EmulatorCompilerError,
    KernelKeywordError,
)
from tile_core.errors.ops import NotPortableError, OpArgumentError
from tile_core.spec import is_refused, names_of, signature_of, table
from tile_cuda.language.refused import REASONS
from tile_cuda.language.unimplemented import UNIMPLEMENTED


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4, threads=64, cluster_dims=2).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="CUDA.*colour"):
        T.Kernel(4, colour=1)


def test_cluster_dims_are_part_of_the_launch() -> None:
    assert T.Kernel(4, cluster_dims=2).cluster_dims == (2, 1, 1)


def test_no_name_of_the_dialect_is_missing() -> None:
    assert not UNIMPLEMENTED


OTHER_PARAMETERS = dict.fromkeys(("ClusterKernel", "Kernel"), "their keywords are checked by the launch")


def with_parameters() -> dict[str, str]:
    """The dialect's own functions that are there, and those that differ in it, with their specified parameters."""
    found = {}
    same = {name for name in names_of("common") if "cuda" not in table()[name].get("signatures", {})}
    for name in sorted(set(names_of("cuda")) - same - set(OTHER_PARAMETERS)):
        expected = signature_of(name, "cuda") if table()[name]["kind"] == "function" else None
        if name in T.__all__ and expected is not None and not is_refused(getattr(T, name)):
            found[name] = expected
    return found


SIGNATURES = with_parameters()


def test_most_names_are_compared() -> None:
    assert len(SIGNATURES) > 100


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_have_the_names_that_programs_give_them(name: str) -> None:
    function, expected = getattr(T, name), SIGNATURES[name]
    plain = re.sub(r"\[[^\]]*\]", "", expected).strip("()")
    theirs = [re.split("[:=]", each)[0].strip(" *") for each in plain.split(",")]
    assert list(inspect.signature(function).parameters) == [each for each in theirs if each]


@pytest.mark.parametrize("name", REASONS)
def test_a_name_that_is_refused_by_design_says_why(name: str) -> None:
    assert name in names_of("cuda")
    with pytest.raises(NotPortableError, match=f"T.{name}: ") as raised:
        getattr(T, name)()
    assert REASONS[name][1] in str(raised.value)


@pytest.mark.parametrize(
    ("row", "dtype"), [(64, "float16"), (32, "float16"), (16, "float16"), (128, "int8"), (64, "float32")]
)
def test_swizzled_rows_lie_in_different_banks(row: int, dtype: str) -> None:
    size = int(re.sub(r"\D", "", dtype)) // 8
    strip = min(128 // size, row)
    units = {}
    for i in range(8):
        for j in range(row):
            number, at, column = T.get_swizzle_layout(i, j, row, dtype)
            units.setdefault((i, j * size // 16), (number * 8 + at) * strip + column)
    assert len(set(units.values())) == len(units)
    for unit in range(row * size // 16):
        banks = {units[i, unit] * size // 16 % 8 for i in range(8)}
        assert len(banks) == 8


def test_swizzles_of_other_rows_are_refused() -> None:
    with pytest.raises(OpArgumentError, match="rows of 24 bytes"):
        T.get_swizzle_layout(0, 0, 12, "float16")
    with pytest.raises(OpArgumentError, match="strips of 48"):
        T.get_swizzle_layout(0, 0, 64, "float16", 48)


def test_an_error_of_the_dialect_is_at_the_line_of_its_caller() -> None:
    with pytest.raises(OpArgumentError, match="100 registers a thread") as raised:

        @T.prim_func
        def kernel(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=128):
                T.set_max_nreg(100, 1)

    assert "T.set_max_nreg(100, 1)" in str(raised.value)
    with pytest.raises(CallSignatureError, match=r"see help\(T\.set_max_nreg\)") as raised:

        @T.prim_func
        def other(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=128):
                T.set_max_nreg(96, wrong=1)

    assert "T.set_max_nreg(96, wrong=1)" in str(raised.value)


def with_prelude(prelude: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8, prelude=prelude):
            tx = T.get_thread_binding(0)
            A[tx] = tx

    return tl.compile(kernel, target="cuda", execution="emulate")


@pytest.mark.emulate
def test_the_prelude_is_compiled_in_front_of_the_kernel() -> None:
    kernel = with_prelude("inline int twice(int x) { return 2 * x; }")
    source = kernel.get_kernel_source()
    assert source.index("int twice(int x)") < source.index("kernel_kernel")
    a = torch.full((8,), -1, dtype=torch.int32)
    kernel(a)
    assert a.tolist() == list(range(8))
    with pytest.raises(EmulatorCompilerError, match="nonsense"):
        with_prelude("nonsense")


@pytest.mark.parametrize("execution", ["interpret", "emulate"])
def test_wishes_change_no_result(execution: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32"), R: T.Tensor((3, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64, 32), "float32")
            row = T.alloc_fragment((64,), "float32")
            T.copy(A, tile, disable_tma=True, prefer_instruction="cp_async", eviction_policy="evict_first")
            for i, j in T.Parallel(64, 32, prefer_async=True):
                tile[i, j] = tile[i, j] + 1.0
            T.atomic_add(B, tile, use_tma=True)
            T.reduce_max(tile, row, dim=1, nan_propagate=True)
            T.copy(row, R[0, :])
            T.reduce_min(tile, row, dim=1, nan_propagate=True)
            T.copy(row, R[1, :])
            T.reduce_absmax(tile, row, dim=1)
            T.copy(row, R[2, :])

    target = {"target": "interpret"} if execution == "interpret" else {"target": "cuda", "execution": "emulate"}
    a, b, r = torch.randn(64, 32), torch.ones(64, 32), torch.full((3, 64), -7.0)
    a[3, 5] = torch.nan
    tl.compile(kernel, **target)(a, b, r)
    torch.testing.assert_close(b, a + 2.0, equal_nan=True)
    expected = torch.stack([(a + 1).amax(1), (a + 1).amin(1), (a + 1).nan_to_num(0.0).abs().amax(1)])
    assert expected[:2, 3].isnan().all() and not expected[2, 3].isnan()
    torch.testing.assert_close(r, expected, equal_nan=True)


def test_a_wish_that_is_none_is_refused() -> None:
    with pytest.raises(OpArgumentError, match="prefer_instruction='dma'"):

        @T.prim_func
        def kernel(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared((64,), "float32")
                T.copy(A, tile, prefer_instruction="dma")


@pytest.mark.parametrize("wish", [{"mbar": True}, {"use_2cta": True}])
def test_scaled_products_in_tensor_memory_have_a_name_of_their_own(wish: dict[str, bool]) -> None:
    with pytest.raises(OpArgumentError, match="gemm_blockscaled") as caught:

        @T.prim_func
        def kernel(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=128):
                a, b = T.alloc_shared((64, 32), "float8_e4m3fn"), T.alloc_shared((32, 64), "float8_e4m3fn")
                factors = T.alloc_shared((64, 1), "uint32")
                total = T.alloc_fragment((64, 64), "float32")
                T.gemm_blockscaled(
                    a, b, total, factors, factors, k_start=0, sf_a_granularity_k=32, sf_b_granularity_k=32, **wish
                )

    assert "T.tcgen05_gemm_blockscaled" in caught.value.remedy
