"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as portable
import tile_cpu.language as T
from tile_core.errors import KernelKeywordError


def test_it_has_the_portable_names() -> None:
    assert set(T.__all__) == portable.exports()
    assert T.copy is portable.copy
    assert T.Kernel is not portable.Kernel


@pytest.mark.parametrize("keyword", ["threads", "cluster_dims"])
def test_kernel_refuses_other_keywords(keyword: str) -> None:
    with pytest.raises(KernelKeywordError, match=f"CPU.*{keyword}") as caught:
        T.Kernel(4, **{keyword: 2})
    assert "a block has no threads on a CPU" in str(caught.value) or keyword != "threads"


def test_a_kernel_of_the_dialect_runs() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5, 3), "int32")):
        with T.Kernel(3, 5) as (bx, by):
            A[by, bx] = by * 3 + bx

    a = torch.full((5, 3), -1, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(a)
    assert a.flatten().tolist() == list(range(15))
