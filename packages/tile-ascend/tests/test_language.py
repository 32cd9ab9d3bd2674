"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import pytest

import tile_ascend.language as T
import tile_core.language as portable
from tile_core.errors import KernelKeywordError


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="Ascend.*threads"):
        T.Kernel(4, threads=64)


def test_a_grid_has_exactly_one_axis() -> None:
    with pytest.raises(KernelKeywordError, match="1 grid extent"):
        T.Kernel(4, 4)
