"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import inspect

import pytest
import torch

import tile_core as tl
import tile_core.language as portable
import tile_rocm.language as T
from tile_core.errors import KernelKeywordError, OpArgumentError
from tile_core.spec import signature_of


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4, threads=64).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="ROCm.*cluster_dims"):
        T.Kernel(4, cluster_dims=2)


def test_a_product_has_the_parameters_that_programs_give_it() -> None:
    expected = signature_of("gemm", "rocm")
    assert expected is not None
    assert [each.split("=")[0].strip() for each in expected.strip("()").split(",")] == list(
        inspect.signature(T.gemm).parameters
    )


@pytest.mark.parametrize("packed", [1, 2])
def test_a_product_of_packed_runs(packed: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=64):
            a, total = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.clear(total)
            T.gemm(a, a, total, transpose_B=True, k_pack=packed)
            T.copy(total, C)

    a, c = torch.randn(16, 16, dtype=torch.float16), torch.full((16, 16), torch.nan)
    tl.compile(kernel, target="interpret")(a, c)
    torch.testing.assert_close(c, a.float() @ a.float().T)


def test_a_number_of_runs_that_is_none() -> None:
    with pytest.raises(OpArgumentError, match="k_pack=0"):
        T.gemm(None, None, None, k_pack=0)
