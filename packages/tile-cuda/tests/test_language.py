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


OTHER_PARAMETERS = {"ClusterKernel": "its keywords are checked by the launch"}


def with_parameters() -> dict[str, str]:
    """The dialect's own functions that are there, and the parameters that they are specified with."""
    found = {}
    for name in sorted(set(names_of("cuda")) - set(names_of("common")) - set(OTHER_PARAMETERS)):
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
