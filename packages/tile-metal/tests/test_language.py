"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import pytest

import tile_core.language as portable
import tile_metal.language as T
from tile_core.errors import KernelKeywordError


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4, threads=64).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="Metal.*cluster_dims"):
        T.Kernel(4, cluster_dims=2)
