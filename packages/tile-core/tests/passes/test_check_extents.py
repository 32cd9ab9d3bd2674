"""Tiles of unknown size are refused before anything is decided about them."""

from __future__ import annotations

from typing import Any

import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.errors import TileExtentError


def test_a_tile_of_unknown_size_is_refused(run_until: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for w in T.serial(1, 4):
                tile = T.alloc_shared((w,), "float32")
                T.clear(tile)

    with pytest.raises(TileExtentError, match="extent w of tile") as caught:
        run_until(kernel, "check_extents")
    assert caught.value.span is not None


@pytest.mark.parametrize("target", [{"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}, "rocm"])
def test_every_target_with_threads_refuses_it_in_these_words(target: Any) -> None:
    pytest.importorskip("tile_cuda" if isinstance(target, dict) else "tile_rocm")
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile)
            T.copy(tile, A)

    with pytest.raises(TileExtentError, match="the extent n of tile"):
        tl.compile(kernel, target=target)
